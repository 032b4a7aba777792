#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::object::testing {

// An ObjectStore in memory, for unit tests. It can do all that the interface offers, at once.
class MemObjectStore final : public ObjectStore {
 public:
  std::string name() const override { return "mem://"; }
  StoreTraits traits() const override;

  Result<void> Create(const Context& ctx) override { return ctx.Check(); }
  Result<GetResult> Get(const Context& ctx, std::string_view key, const GetOptions& options,
                        std::span<std::byte> out) override;
  Result<void> Put(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                   const PutOptions& options) override;
  Result<void> Delete(const Context& ctx, std::string_view key) override;
  Result<ObjectInfo> Head(const Context& ctx, std::string_view key) override;
  Result<void> List(const Context& ctx, const ListOptions& options,
                    const ListVisitor& visit) override;
  Result<void> Copy(const Context& ctx, std::string_view from, std::string_view to) override;
  Result<std::string> CreateUpload(const Context& ctx, std::string_view key,
                                   const PutOptions& options) override;
  Result<UploadedPart> UploadPart(const Context& ctx, std::string_view key,
                                  const std::string& upload, int number,
                                  std::span<const std::byte> data) override;
  Result<void> CompleteUpload(const Context& ctx, std::string_view key, const std::string& upload,
                              std::span<const UploadedPart> parts) override;
  Result<void> AbortUpload(const Context& ctx, std::string_view key,
                           const std::string& upload) override;

  std::size_t size() const;

 private:
  struct Object {
    std::string content;
    std::string etag;
    std::chrono::system_clock::time_point mtime;
    std::optional<std::uint32_t> crc32c;
  };
  struct Upload {
    std::string key;
    PutOptions options;
    std::map<int, std::string> parts;
  };

  Result<const Object*> Find(std::string_view key) const REQUIRES(mutex_);
  static ObjectInfo InfoOf(const std::string& key, const Object& object);

  mutable Mutex mutex_;
  std::map<std::string, Object, std::less<>> objects_ GUARDED_BY(mutex_);
  std::map<std::string, Upload> uploads_ GUARDED_BY(mutex_);
  std::uint64_t next_ GUARDED_BY(mutex_) = 1;
};

}  // namespace paddleop::volume::object::testing
