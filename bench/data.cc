// Makes the data sets that benchmarks import, warm and remove:
//
//   bench_data imagenet|small|big URI [SHARE]
//
// imagenet: 20,000 files of 60 to 160 kB in 100 directories; small: 50,000 of 4 KiB in 50
// directories; big: 4 of 1 GiB. SHARE (1 by default) scales the number of files, of big their size.
// Contents and names are the same each time.
#include <fmt/format.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "volume/object/open_store.h"

namespace {

using paddleop::Context;
using paddleop::Result;
using paddleop::volume::object::ObjectStore;

constexpr std::size_t kInFlight = 16;
constexpr std::size_t kPartSize = 16 << 20;

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  std::uint64_t Next() {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return state_;
  }
  std::vector<std::byte> Bytes(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t at = 0; at < size; at += 8) {
      const std::uint64_t value = Next();
      std::memcpy(bytes.data() + at, &value, std::min<std::size_t>(8, size - at));
    }
    return bytes;
  }

 private:
  std::uint64_t state_;
};

void Require(const Result<void>& result) {
  if (result) return;
  fmt::print(stderr, "bench_data: {}\n", result.error().message());
  std::exit(1);
}

// Puts objects, a few at a time.
class Writer {
 public:
  explicit Writer(ObjectStore& store) : store_(store) {}
  ~Writer() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return in_flight_ == 0; });
  }

  void Put(const std::string& key, std::vector<std::byte> content) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return in_flight_ < kInFlight; });
      ++in_flight_;
    }
    auto data = std::make_shared<std::vector<std::byte>>(std::move(content));
    store_.StartPut(Context::Background(), key, *data, {}, [this, data](Result<void> done) {
      Require(done);
      const std::lock_guard lock(mutex_);
      --in_flight_;
      changed_.notify_all();
    });
  }

 private:
  ObjectStore& store_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t in_flight_ = 0;
};

void PutBig(ObjectStore& store, const std::string& key, std::size_t size, Random& random) {
  const Context ctx = Context::Background();
  if (store.traits().min_part_size == 0)
    return Require(store.Put(ctx, key, random.Bytes(size), {}));
  auto upload = store.CreateUpload(ctx, key, {});
  if (!upload) return Require(std::unexpected(upload.error()));
  std::vector<paddleop::volume::object::UploadedPart> parts;
  for (std::size_t at = 0; at < size; at += kPartSize) {
    auto part = store.UploadPart(ctx, key, *upload, static_cast<int>(parts.size()) + 1,
                                 random.Bytes(std::min(kPartSize, size - at)));
    if (!part) return Require(std::unexpected(part.error()));
    parts.push_back(*std::move(part));
  }
  Require(store.CompleteUpload(ctx, key, *upload, parts));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 2 ? argv[1] : "";
  const double share = argc > 3 ? std::atof(argv[3]) : 1.0;
  if (share <= 0 || (kind != "imagenet" && kind != "small" && kind != "big")) {
    fmt::print(stderr, "usage: bench_data imagenet|small|big URI [SHARE]\n");
    return 2;
  }
  auto uri = paddleop::volume::object::ParseStorageUri(argv[2]);
  if (!uri) return Require(std::unexpected(uri.error())), 1;
  if (uri->config.storage == "file" && !uri->config.bucket.ends_with('/'))
    uri->config.bucket += '/';
  auto store = paddleop::volume::object::OpenStore(uri->config);
  if (!store) return Require(std::unexpected(store.error())), 1;
  Require((*store)->Create(Context::Background()));
  std::string prefix = uri->prefix;
  if (!prefix.empty() && !prefix.ends_with('/')) prefix += '/';
  Random random(42);
  if (kind == "big") {
    const auto size = static_cast<std::size_t>(share * (1 << 30));
    for (int i = 0; i < 4; ++i) PutBig(**store, fmt::format("{}part-{}", prefix, i), size, random);
    return 0;
  }
  const bool small = kind == "small";
  const int files = static_cast<int>(share * (small ? 50'000 : 20'000));
  const int directories = small ? 50 : 100;
  Writer writer(**store);
  for (int i = 0; i < files; ++i) {
    const std::size_t size = small ? 4096 : 60'000 + random.Next() % 100'000;
    writer.Put(fmt::format("{}n{:04}/{:06}.{}", prefix, i % directories, i, small ? "bin" : "jpg"),
               random.Bytes(size));
  }
  return 0;
}
