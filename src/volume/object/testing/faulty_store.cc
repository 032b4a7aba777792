#include "volume/object/testing/faulty_store.h"

#include <utility>

#include "base/clock.h"

namespace paddleop::volume::object::testing {

FaultyObjectStore::FaultyObjectStore(std::unique_ptr<ObjectStore> inner, std::uint64_t seed)
    : ForwardingStore(std::move(inner)), random_(seed) {}

void FaultyObjectStore::Inject(Op op, Fault fault, int times, int after) {
  MutexLock lock(mutex_);
  rules_.push_back({.op = op, .fault = fault, .after = after, .times = times});
}

void FaultyObjectStore::InjectRandomly(Op op, Fault fault, double probability) {
  MutexLock lock(mutex_);
  rules_.push_back({.op = op, .fault = fault, .probability = probability});
}

void FaultyObjectStore::set_retry_after(std::chrono::milliseconds delay) {
  MutexLock lock(mutex_);
  retry_after_ = delay;
}

int FaultyObjectStore::calls(Op op) const {
  MutexLock lock(mutex_);
  return calls_[static_cast<std::size_t>(op)];
}

std::chrono::steady_clock::duration FaultyObjectStore::RetryAfter() const {
  MutexLock lock(mutex_);
  return retry_after_;
}

std::optional<Fault> FaultyObjectStore::Next(Op op) {
  MutexLock lock(mutex_);
  ++calls_[static_cast<std::size_t>(op)];
  for (auto rule = rules_.begin(); rule != rules_.end(); ++rule) {
    if (rule->op != op) continue;
    if (rule->probability > 0) {
      if (std::uniform_real_distribution<double>(0, 1)(random_) < rule->probability) {
        return rule->fault;
      }
      continue;
    }
    if (rule->after > 0) {
      --rule->after;
      continue;
    }
    const Fault fault = rule->fault;
    if (--rule->times == 0) rules_.erase(rule);
    return fault;
  }
  return std::nullopt;
}

std::unexpected<Status> FaultyObjectStore::Reset(std::string_view key) {
  return Fail(Code::kUnavailable, "{}: connection reset by peer", key);
}

Result<void> FaultyObjectStore::Before(const Context& ctx, Op op, std::optional<Fault>* fault,
                                       std::string_view key) {
  RETURN_IF_ERROR(ctx.Check());
  *fault = Next(op);
  if (!*fault) return {};
  if ((*fault)->kind == Fault::Kind::kUnavailable) {
    return Fail(Code::kUnavailable, "{}: 503 SlowDown", key);
  }
  if ((*fault)->kind == Fault::Kind::kSlow && !Clock::System().SleepFor(ctx, (*fault)->delay)) {
    return Fail(Code::kDeadline, "{}: too slow", key);
  }
  return {};
}

Result<GetResult> FaultyObjectStore::Get(const Context& ctx, std::string_view key,
                                         const GetOptions& options, std::span<std::byte> out) {
  std::optional<Fault> fault;
  RETURN_IF_ERROR(Before(ctx, Op::kGet, &fault, key));
  auto got = inner_->Get(ctx, key, options, out);
  if (!got || !fault) return got;
  switch (fault->kind) {
    case Fault::Kind::kCorrupt:
      if (got->size > 0) out[got->size / 2] ^= std::byte{0x40};
      return got;
    case Fault::Kind::kShortRead:
      for (std::byte& b : out.subspan(got->size / 2)) b = std::byte{0xee};
      return Reset(key);
    case Fault::Kind::kReset:
      return Reset(key);
    default:
      return got;
  }
}

Result<void> FaultyObjectStore::Put(const Context& ctx, std::string_view key,
                                    std::span<const std::byte> data, const PutOptions& options) {
  std::optional<Fault> fault;
  RETURN_IF_ERROR(Before(ctx, Op::kPut, &fault, key));
  RETURN_IF_ERROR(inner_->Put(ctx, key, data, options));
  if (fault && fault->kind == Fault::Kind::kReset) return Reset(key);
  return {};
}

Result<void> FaultyObjectStore::Delete(const Context& ctx, std::string_view key) {
  std::optional<Fault> fault;
  RETURN_IF_ERROR(Before(ctx, Op::kDelete, &fault, key));
  RETURN_IF_ERROR(inner_->Delete(ctx, key));
  if (fault && fault->kind == Fault::Kind::kReset) return Reset(key);
  return {};
}

Result<ObjectInfo> FaultyObjectStore::Head(const Context& ctx, std::string_view key) {
  std::optional<Fault> fault;
  RETURN_IF_ERROR(Before(ctx, Op::kHead, &fault, key));
  if (fault && fault->kind == Fault::Kind::kReset) return Reset(key);
  return inner_->Head(ctx, key);
}

Result<void> FaultyObjectStore::List(const Context& ctx, const ListOptions& options,
                                     const ListVisitor& visit) {
  std::optional<Fault> fault;
  RETURN_IF_ERROR(Before(ctx, Op::kList, &fault, options.prefix));
  if (!fault || fault->kind == Fault::Kind::kSlow) return inner_->List(ctx, options, visit);
  std::uint64_t left = options.limit > 1 ? options.limit / 2 : 1;
  return inner_->List(ctx, options, [&](ObjectInfo& entry) -> Result<bool> {
    if (left-- == 0) return Reset(options.prefix);
    return visit(entry);
  });
}

Result<void> FaultyObjectStore::CompleteUpload(const Context& ctx, std::string_view key,
                                               const std::string& upload,
                                               std::span<const UploadedPart> parts) {
  std::optional<Fault> fault;
  RETURN_IF_ERROR(Before(ctx, Op::kUpload, &fault, key));
  RETURN_IF_ERROR(inner_->CompleteUpload(ctx, key, upload, parts));
  if (fault && fault->kind == Fault::Kind::kReset) return Reset(key);
  return {};
}

}  // namespace paddleop::volume::object::testing
