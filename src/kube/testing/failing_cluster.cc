#include "kube/testing/failing_cluster.h"

#include <algorithm>
#include <span>

namespace paddleop::kube::testing {
namespace {

std::span<const Fault> FaultsOf(std::string_view verb) {
  static constexpr Fault kRead[] = {Fault::kTooMany, Fault::kServerError};
  static constexpr Fault kList[] = {Fault::kTooMany, Fault::kServerError, Fault::kExpired};
  static constexpr Fault kCreate[] = {Fault::kTooMany, Fault::kServerError, Fault::kLostReply};
  static constexpr Fault kWrite[] = {Fault::kConflict, Fault::kTooMany, Fault::kServerError,
                                     Fault::kLostReply};
  static constexpr Fault kWatch[] = {Fault::kServerError, Fault::kExpired, Fault::kDroppedWatch};
  if (verb == "get") return kRead;
  if (verb == "list") return kList;
  if (verb == "watch") return kWatch;
  if (verb == "create") return kCreate;
  return kWrite;
}

Status StatusOf(Fault fault, std::string_view verb) {
  switch (fault) {
    case Fault::kConflict:
      return Status(Code::kConflict, fmt::format("{}: 409 Conflict (injected)", verb));
    case Fault::kTooMany:
      return Status(Code::kUnavailable, fmt::format("{}: 429 TooManyRequests (injected)", verb));
    case Fault::kServerError:
      return Status(Code::kUnavailable, fmt::format("{}: 500 InternalError (injected)", verb));
    case Fault::kLostReply:
      return Status(Code::kUnavailable, fmt::format("{}: connection reset (injected)", verb));
    case Fault::kExpired:
      return Status(Code::kExpired, fmt::format("{}: 410 Expired (injected)", verb));
    case Fault::kDroppedWatch:
      return Status(Code::kUnavailable, fmt::format("{}: connection closed (injected)", verb));
  }
  return Status(Code::kInternal, "unknown fault");
}

}  // namespace

void FailingCluster::FailNext(const std::string& verb, Fault fault, std::size_t times) {
  MutexLock lock(mutex_);
  for (std::size_t i = 0; i < times; ++i) planned_.push_back({verb, fault});
}

void FailingCluster::FailRandomly(std::uint64_t seed, double probability) {
  MutexLock lock(mutex_);
  random_.seed(seed);
  probability_ = probability;
}

std::size_t FailingCluster::failed() const {
  MutexLock lock(mutex_);
  return failed_;
}

std::optional<Fault> FailingCluster::Draw(std::string_view verb) {
  MutexLock lock(mutex_);
  const auto planned = std::ranges::find_if(
      planned_, [&](const Planned& plan) { return plan.verb == verb || plan.verb == "*"; });
  if (planned != planned_.end()) {
    const Fault fault = planned->fault;
    planned_.erase(planned);
    ++failed_;
    return fault;
  }
  if (probability_ <= 0 || !std::bernoulli_distribution(probability_)(random_)) return std::nullopt;
  ++failed_;
  const auto faults = FaultsOf(verb);
  return faults[std::uniform_int_distribution<std::size_t>(0, faults.size() - 1)(random_)];
}

template <class Call>
auto FailingCluster::Through(std::string_view verb, const Call& call) -> decltype(call()) {
  const auto fault = Draw(verb);
  if (!fault) return call();
  if (*fault == Fault::kLostReply) {
    // What the server answered is lost; the caller cannot know whether anything was done.
    if (auto lost = call(); !lost) return lost;
  }
  return std::unexpected(StatusOf(*fault, verb));
}

Result<RawObject> FailingCluster::Get(const Context& ctx, const GroupVersionResource& resource,
                                      const ObjectKey& key) {
  return Through("get", [&] { return inner_.Get(ctx, resource, key); });
}

Result<ListPage> FailingCluster::List(const Context& ctx, const GroupVersionResource& resource,
                                      const std::string& ns, const ListOptions& options) {
  return Through("list", [&] { return inner_.List(ctx, resource, ns, options); });
}

Result<RawObject> FailingCluster::Create(const Context& ctx, const GroupVersionResource& resource,
                                         const std::string& ns, std::string_view json) {
  return Through("create", [&] { return inner_.Create(ctx, resource, ns, json); });
}

Result<RawObject> FailingCluster::Patch(const Context& ctx, const GroupVersionResource& resource,
                                        const ObjectKey& key, const ObjectPatch& patch) {
  return Through("patch", [&] { return inner_.Patch(ctx, resource, key, patch); });
}

Result<RawObject> FailingCluster::Update(const Context& ctx, const GroupVersionResource& resource,
                                         const ObjectKey& key, std::string_view json,
                                         std::string_view subresource) {
  return Through("update", [&] { return inner_.Update(ctx, resource, key, json, subresource); });
}

Result<RawObject> FailingCluster::CreateSubresource(const Context& ctx,
                                                    const GroupVersionResource& resource,
                                                    const ObjectKey& key,
                                                    std::string_view subresource,
                                                    std::string_view json) {
  return Through("create",
                 [&] { return inner_.CreateSubresource(ctx, resource, key, subresource, json); });
}

Result<void> FailingCluster::Delete(const Context& ctx, const GroupVersionResource& resource,
                                    const ObjectKey& key, const DeleteOptions& options) {
  return Through("delete", [&] { return inner_.Delete(ctx, resource, key, options); });
}

Result<void> FailingCluster::Watch(const Context& ctx, const GroupVersionResource& resource,
                                   const std::string& ns, const WatchOptions& options,
                                   const WatchSink& sink) {
  const auto fault = Draw("watch");
  if (!fault) return inner_.Watch(ctx, resource, ns, options, sink);
  if (*fault != Fault::kDroppedWatch) return std::unexpected(StatusOf(*fault, "watch"));
  return inner_.Watch(ctx, resource, ns, options, [&](WatchEvent event) -> Result<void> {
    RETURN_IF_ERROR(sink(std::move(event)));
    return std::unexpected(StatusOf(Fault::kDroppedWatch, "watch"));
  });
}

}  // namespace paddleop::kube::testing
