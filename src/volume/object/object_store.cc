#include "volume/object/object_store.h"

#include <utility>

#include "base/bytes.h"

namespace paddleop::volume::object {

Result<std::vector<KeyError>> ObjectStore::DeleteMany(const Context& ctx,
                                                      std::span<const std::string> keys) {
  std::vector<KeyError> failed;
  for (const std::string& key : keys) {
    RETURN_IF_ERROR(ctx.Check());
    if (auto deleted = Delete(ctx, key); !deleted) failed.push_back({key, deleted.error()});
  }
  return failed;
}

Result<void> ObjectStore::Copy(const Context&, std::string_view, std::string_view) {
  return Fail(Code::kNotSupported, "{} cannot copy objects by itself", name());
}

Result<std::string> ObjectStore::CreateUpload(const Context&, std::string_view, const PutOptions&) {
  return Fail(Code::kNotSupported, "{} takes no objects in parts", name());
}

Result<UploadedPart> ObjectStore::UploadPart(const Context&, std::string_view, const std::string&,
                                             int, std::span<const std::byte>) {
  return Fail(Code::kNotSupported, "{} takes no objects in parts", name());
}

Result<void> ObjectStore::CompleteUpload(const Context&, std::string_view, const std::string&,
                                         std::span<const UploadedPart>) {
  return Fail(Code::kNotSupported, "{} takes no objects in parts", name());
}

Result<void> ObjectStore::AbortUpload(const Context&, std::string_view, const std::string&) {
  return Fail(Code::kNotSupported, "{} takes no objects in parts", name());
}

// NOLINTBEGIN(performance-unnecessary-value-param): stores that do not wait keep `done`
void ObjectStore::StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                           std::span<std::byte> out, GetDone done) {
  done(Get(ctx, key, options, out));
}

void ObjectStore::StartPut(const Context& ctx, std::string_view key,
                           std::span<const std::byte> data, const PutOptions& options, Done done) {
  done(Put(ctx, key, data, options));
}

void ObjectStore::StartDelete(const Context& ctx, std::string_view key, Done done) {
  done(Delete(ctx, key));
}
// NOLINTEND(performance-unnecessary-value-param)

std::chrono::steady_clock::duration ObjectStore::RetryAfter() const { return {}; }

Result<std::string> GetString(ObjectStore& store, const Context& ctx, std::string_view key,
                              std::size_t limit) {
  std::string content(limit, '\0');
  ASSIGN_OR_RETURN(GetResult got,
                   store.Get(ctx, key, {}, std::as_writable_bytes(std::span(content))));
  content.resize(got.size);
  return content;
}

Result<void> PutString(ObjectStore& store, const Context& ctx, std::string_view key,
                       std::string_view content) {
  return store.Put(ctx, key, AsBytes(content), {});
}

Result<std::vector<ObjectInfo>> ListEntries(ObjectStore& store, const Context& ctx,
                                            const ListOptions& options) {
  std::vector<ObjectInfo> entries;
  RETURN_IF_ERROR(store.List(ctx, options, [&](ObjectInfo& entry) -> Result<bool> {
    entries.push_back(std::move(entry));
    return true;
  }));
  return entries;
}

}  // namespace paddleop::volume::object
