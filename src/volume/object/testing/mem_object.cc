#include "volume/object/testing/mem_object.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/crypto.h"
#include "volume/object/internal/list_filter.h"

namespace paddleop::volume::object::testing {

StoreTraits MemObjectStore::traits() const {
  return {.metadata = true,
          .copy = true,
          .min_part_size = 1,
          .max_part_size = 1 << 30,
          .max_parts = 10'000};
}

ObjectInfo MemObjectStore::InfoOf(const std::string& key, const Object& object) {
  return {.key = key,
          .size = object.content.size(),
          .mtime = object.mtime,
          .etag = object.etag,
          .is_prefix = false};
}

Result<const MemObjectStore::Object*> MemObjectStore::Find(std::string_view key) const {
  const auto found = objects_.find(key);
  if (found == objects_.end()) return Fail(Code::kNotFound, "mem://{}: no such object", key);
  return &found->second;
}

Result<GetResult> MemObjectStore::Get(const Context& ctx, std::string_view key,
                                      const GetOptions& options, std::span<std::byte> out) {
  RETURN_IF_ERROR(ctx.Check());
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const Object* object, Find(key));
  if (!options.if_match.empty() && options.if_match != object->etag) {
    return Fail(Code::kConflict, "mem://{} has changed", key);
  }
  const std::uint64_t size = object->content.size();
  const std::uint64_t offset = std::min(options.range.offset, size);
  const std::uint64_t wanted = std::min(options.range.length, size - offset);
  if (wanted > out.size()) {
    return Fail(Code::kInvalid, "mem://{}: {} bytes do not fit into a buffer of {}", key, wanted,
                out.size());
  }
  if (wanted > 0) std::memcpy(out.data(), object->content.data() + offset, wanted);
  return GetResult{wanted, size, object->etag, object->crc32c};
}

Result<void> MemObjectStore::Put(const Context& ctx, std::string_view key,
                                 std::span<const std::byte> data, const PutOptions& options) {
  RETURN_IF_ERROR(ctx.Check());
  if (key.empty()) return Fail(Code::kInvalid, "an object needs a key");
  MutexLock lock(mutex_);
  Object& object = objects_[std::string(key)];
  object.content = AsText(data);
  object.etag = fmt::format("e{}", next_++);
  object.mtime = std::chrono::system_clock::now();
  object.crc32c = options.crc32c;
  return {};
}

Result<void> MemObjectStore::Delete(const Context& ctx, std::string_view key) {
  RETURN_IF_ERROR(ctx.Check());
  MutexLock lock(mutex_);
  if (const auto found = objects_.find(key); found != objects_.end()) objects_.erase(found);
  return {};
}

Result<ObjectInfo> MemObjectStore::Head(const Context& ctx, std::string_view key) {
  RETURN_IF_ERROR(ctx.Check());
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const Object* object, Find(key));
  return InfoOf(std::string(key), *object);
}

Result<void> MemObjectStore::List(const Context& ctx, const ListOptions& options,
                                  const ListVisitor& visit) {
  std::vector<ObjectInfo> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, object] : objects_) all.push_back(InfoOf(key, object));
  }
  internal::ListFilter filter(options, visit);
  for (ObjectInfo& entry : all) {
    RETURN_IF_ERROR(ctx.Check());
    ASSIGN_OR_RETURN(const bool more, filter.Offer(entry));
    if (!more) break;
  }
  return {};
}

Result<void> MemObjectStore::Copy(const Context& ctx, std::string_view from, std::string_view to) {
  RETURN_IF_ERROR(ctx.Check());
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const Object* object, Find(from));
  Object copy = *object;
  copy.etag = fmt::format("e{}", next_++);
  copy.mtime = std::chrono::system_clock::now();
  objects_[std::string(to)] = std::move(copy);
  return {};
}

Result<std::string> MemObjectStore::CreateUpload(const Context& ctx, std::string_view key,
                                                 const PutOptions& options) {
  RETURN_IF_ERROR(ctx.Check());
  MutexLock lock(mutex_);
  std::string id = fmt::format("u{}", next_++);
  uploads_[id] = {.key = std::string(key), .options = options, .parts = {}};
  return id;
}

Result<UploadedPart> MemObjectStore::UploadPart(const Context& ctx, std::string_view key,
                                                const std::string& upload, int number,
                                                std::span<const std::byte> data) {
  RETURN_IF_ERROR(ctx.Check());
  MutexLock lock(mutex_);
  const auto found = uploads_.find(upload);
  if (found == uploads_.end() || found->second.key != key) {
    return Fail(Code::kNotFound, "mem://{}: no upload {}", key, upload);
  }
  found->second.parts[number] = AsText(data);
  return UploadedPart{number, HexEncode(Md5(AsText(data))), data.size()};
}

Result<void> MemObjectStore::CompleteUpload(const Context& ctx, std::string_view key,
                                            const std::string& upload,
                                            std::span<const UploadedPart> parts) {
  RETURN_IF_ERROR(ctx.Check());
  MutexLock lock(mutex_);
  const auto found = uploads_.find(upload);
  if (found == uploads_.end() || found->second.key != key) {
    return Fail(Code::kNotFound, "mem://{}: no upload {}", key, upload);
  }
  Object object;
  std::string digests;
  for (const UploadedPart& part : parts) {
    const auto content = found->second.parts.find(part.number);
    if (content == found->second.parts.end()) {
      return Fail(Code::kInvalid, "mem://{}: no part {}", key, part.number);
    }
    object.content += content->second;
    digests += Md5(content->second);
  }
  object.etag = fmt::format("{}-{}", HexEncode(Md5(digests)), parts.size());
  object.mtime = std::chrono::system_clock::now();
  object.crc32c = found->second.options.crc32c;
  objects_[std::string(key)] = std::move(object);
  uploads_.erase(found);
  return {};
}

Result<void> MemObjectStore::AbortUpload(const Context& ctx, std::string_view,
                                         const std::string& upload) {
  RETURN_IF_ERROR(ctx.Check());
  MutexLock lock(mutex_);
  uploads_.erase(upload);
  return {};
}

std::size_t MemObjectStore::size() const {
  MutexLock lock(mutex_);
  return objects_.size();
}

}  // namespace paddleop::volume::object::testing
