#include "volume/object/forwarding_store.h"

namespace paddleop::volume::object {

Result<void> ForwardingStore::Create(const Context& ctx) { return inner_->Create(ctx); }

Result<GetResult> ForwardingStore::Get(const Context& ctx, std::string_view key,
                                       const GetOptions& options, std::span<std::byte> out) {
  return inner_->Get(ctx, key, options, out);
}

Result<void> ForwardingStore::Put(const Context& ctx, std::string_view key,
                                  std::span<const std::byte> data, const PutOptions& options) {
  return inner_->Put(ctx, key, data, options);
}

Result<void> ForwardingStore::Delete(const Context& ctx, std::string_view key) {
  return inner_->Delete(ctx, key);
}

Result<std::vector<KeyError>> ForwardingStore::DeleteMany(const Context& ctx,
                                                          std::span<const std::string> keys) {
  return inner_->DeleteMany(ctx, keys);
}

Result<ObjectInfo> ForwardingStore::Head(const Context& ctx, std::string_view key) {
  return inner_->Head(ctx, key);
}

Result<void> ForwardingStore::List(const Context& ctx, const ListOptions& options,
                                   const ListVisitor& visit) {
  return inner_->List(ctx, options, visit);
}

Result<void> ForwardingStore::Copy(const Context& ctx, std::string_view from, std::string_view to) {
  return inner_->Copy(ctx, from, to);
}

Result<std::string> ForwardingStore::CreateUpload(const Context& ctx, std::string_view key,
                                                  const PutOptions& options) {
  return inner_->CreateUpload(ctx, key, options);
}

Result<UploadedPart> ForwardingStore::UploadPart(const Context& ctx, std::string_view key,
                                                 const std::string& upload, int number,
                                                 std::span<const std::byte> data) {
  return inner_->UploadPart(ctx, key, upload, number, data);
}

Result<void> ForwardingStore::CompleteUpload(const Context& ctx, std::string_view key,
                                             const std::string& upload,
                                             std::span<const UploadedPart> parts) {
  return inner_->CompleteUpload(ctx, key, upload, parts);
}

Result<void> ForwardingStore::AbortUpload(const Context& ctx, std::string_view key,
                                          const std::string& upload) {
  return inner_->AbortUpload(ctx, key, upload);
}

void ForwardingStore::StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                               std::span<std::byte> out, GetDone done) {
  inner_->StartGet(ctx, key, options, out, std::move(done));
}

void ForwardingStore::StartPut(const Context& ctx, std::string_view key,
                               std::span<const std::byte> data, const PutOptions& options,
                               Done done) {
  inner_->StartPut(ctx, key, data, options, std::move(done));
}

void ForwardingStore::StartDelete(const Context& ctx, std::string_view key, Done done) {
  inner_->StartDelete(ctx, key, std::move(done));
}

}  // namespace paddleop::volume::object
