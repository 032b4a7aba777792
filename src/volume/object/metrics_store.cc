#include "volume/object/metrics_store.h"

#include <array>
#include <chrono>
#include <utility>

#include "volume/object/forwarding_store.h"
#include "volume/object/metrics.h"

namespace paddleop::volume::object {
namespace {

enum ErrorKind {
  kNotFoundError,
  kPermissionError,
  kUnavailableError,
  kDeadlineError,
  kCorruptError,
  kOtherError,
  kErrorKinds
};

ErrorKind KindOf(Code code) {
  switch (code) {
    case Code::kNotFound:
      return kNotFoundError;
    case Code::kPermission:
      return kPermissionError;
    case Code::kUnavailable:
      return kUnavailableError;
    case Code::kDeadline:
      return kDeadlineError;
    case Code::kCorrupt:
      return kCorruptError;
    default:
      return kOtherError;
  }
}

// The series of one kind of operation.
struct Series {
  Series(MetricsRegistry& registry, const char* op)
      : seconds(registry.AddHistogram(kRequestSeconds, kRequestSecondsHelp, {{"op", op}})),
        in_flight(registry.AddGauge(kInFlight, kInFlightHelp, {{"op", op}})) {
    static constexpr std::array<const char*, kErrorKinds> kNames = {
        "not_found", "permission", "unavailable", "deadline", "corrupt", "other"};
    for (std::size_t i = 0; i < kErrorKinds; ++i) {
      errors[i] =
          &registry.AddCounter(kErrorsTotal, kErrorsTotalHelp, {{"op", op}, {"code", kNames[i]}});
    }
  }

  MetricsRegistry::Histogram& seconds;
  MetricsRegistry::Gauge& in_flight;
  std::array<MetricsRegistry::Counter*, kErrorKinds> errors{};
};

class Timer {
 public:
  explicit Timer(Series& series) : series_(series), start_(std::chrono::steady_clock::now()) {
    series_.in_flight.Add(1);
  }
  template <class T>
  void End(const Result<T>& result) {
    series_.in_flight.Add(-1);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start_;
    series_.seconds.Observe(took.count());
    if (!result) series_.errors[KindOf(result.error().code())]->Increment();
  }

 private:
  Series& series_;
  const std::chrono::steady_clock::time_point start_;
};

class MetricsStore final : public ForwardingStore {
 public:
  MetricsStore(std::unique_ptr<ObjectStore> inner, MetricsRegistry& registry)
      : ForwardingStore(std::move(inner)),
        read_(registry.AddCounter(kBytesTotal, kBytesTotalHelp, {{"direction", "read"}})),
        written_(registry.AddCounter(kBytesTotal, kBytesTotalHelp, {{"direction", "written"}})),
        create_(registry, "create"),
        get_(registry, "get"),
        put_(registry, "put"),
        delete_(registry, "delete"),
        delete_many_(registry, "delete_many"),
        head_(registry, "head"),
        list_(registry, "list"),
        copy_(registry, "copy"),
        upload_(registry, "upload") {}

  // The inner store completes what is in flight, and that is counted here.
  ~MetricsStore() override { inner_.reset(); }

  Result<void> Create(const Context& ctx) override {
    return Timed(create_, [&] { return inner_->Create(ctx); });
  }
  Result<GetResult> Get(const Context& ctx, std::string_view key, const GetOptions& options,
                        std::span<std::byte> out) override {
    auto got = Timed(get_, [&] { return inner_->Get(ctx, key, options, out); });
    if (got) read_.Increment(static_cast<double>(got->size));
    return got;
  }
  Result<void> Put(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                   const PutOptions& options) override {
    auto put = Timed(put_, [&] { return inner_->Put(ctx, key, data, options); });
    if (put) written_.Increment(static_cast<double>(data.size()));
    return put;
  }
  Result<void> Delete(const Context& ctx, std::string_view key) override {
    return Timed(delete_, [&] { return inner_->Delete(ctx, key); });
  }
  Result<std::vector<KeyError>> DeleteMany(const Context& ctx,
                                           std::span<const std::string> keys) override {
    return Timed(delete_many_, [&] { return inner_->DeleteMany(ctx, keys); });
  }
  Result<ObjectInfo> Head(const Context& ctx, std::string_view key) override {
    return Timed(head_, [&] { return inner_->Head(ctx, key); });
  }
  Result<void> List(const Context& ctx, const ListOptions& options,
                    const ListVisitor& visit) override {
    return Timed(list_, [&] { return inner_->List(ctx, options, visit); });
  }
  Result<void> Copy(const Context& ctx, std::string_view from, std::string_view to) override {
    return Timed(copy_, [&] { return inner_->Copy(ctx, from, to); });
  }
  Result<std::string> CreateUpload(const Context& ctx, std::string_view key,
                                   const PutOptions& options) override {
    return Timed(upload_, [&] { return inner_->CreateUpload(ctx, key, options); });
  }
  Result<UploadedPart> UploadPart(const Context& ctx, std::string_view key,
                                  const std::string& upload, int number,
                                  std::span<const std::byte> data) override {
    auto part = Timed(upload_, [&] { return inner_->UploadPart(ctx, key, upload, number, data); });
    if (part) written_.Increment(static_cast<double>(data.size()));
    return part;
  }
  Result<void> CompleteUpload(const Context& ctx, std::string_view key, const std::string& upload,
                              std::span<const UploadedPart> parts) override {
    return Timed(upload_, [&] { return inner_->CompleteUpload(ctx, key, upload, parts); });
  }
  Result<void> AbortUpload(const Context& ctx, std::string_view key,
                           const std::string& upload) override {
    return Timed(upload_, [&] { return inner_->AbortUpload(ctx, key, upload); });
  }

  void StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                std::span<std::byte> out, GetDone done) override {
    inner_->StartGet(
        ctx, key, options, out,
        [this, timer = Timer(get_), done = std::move(done)](Result<GetResult> got) mutable {
          timer.End(got);
          if (got) read_.Increment(static_cast<double>(got->size));
          done(std::move(got));
        });
  }
  void StartPut(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                const PutOptions& options, Done done) override {
    inner_->StartPut(ctx, key, data, options,
                     [this, timer = Timer(put_), size = data.size(),
                      done = std::move(done)](Result<void> put) mutable {
                       timer.End(put);
                       if (put) written_.Increment(static_cast<double>(size));
                       done(std::move(put));
                     });
  }
  void StartDelete(const Context& ctx, std::string_view key, Done done) override {
    inner_->StartDelete(
        ctx, key, [timer = Timer(delete_), done = std::move(done)](Result<void> deleted) mutable {
          timer.End(deleted);
          done(std::move(deleted));
        });
  }

 private:
  template <class Operation>
  static auto Timed(Series& series, Operation operation) -> decltype(operation()) {
    Timer timer(series);
    auto result = operation();
    timer.End(result);
    return result;
  }

  MetricsRegistry::Counter& read_;
  MetricsRegistry::Counter& written_;
  Series create_, get_, put_, delete_, delete_many_, head_, list_, copy_, upload_;
};

}  // namespace

std::unique_ptr<ObjectStore> WithMetrics(std::unique_ptr<ObjectStore> inner,
                                         MetricsRegistry& registry) {
  return std::make_unique<MetricsStore>(std::move(inner), registry);
}

}  // namespace paddleop::volume::object
