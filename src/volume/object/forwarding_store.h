#pragma once

#include <memory>
#include <utility>

#include "volume/object/object_store.h"

namespace paddleop::volume::object {

// What every decorator begins with: hands all calls to the store inside.
class ForwardingStore : public ObjectStore {
 public:
  explicit ForwardingStore(std::unique_ptr<ObjectStore> inner) : inner_(std::move(inner)) {}

  std::string name() const override { return inner_->name(); }
  StoreTraits traits() const override { return inner_->traits(); }

  Result<void> Create(const Context& ctx) override;
  Result<GetResult> Get(const Context& ctx, std::string_view key, const GetOptions& options,
                        std::span<std::byte> out) override;
  Result<void> Put(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                   const PutOptions& options) override;
  Result<void> Delete(const Context& ctx, std::string_view key) override;
  Result<std::vector<KeyError>> DeleteMany(const Context& ctx,
                                           std::span<const std::string> keys) override;
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
  void StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                std::span<std::byte> out, GetDone done) override;
  void StartPut(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                const PutOptions& options, Done done) override;
  void StartDelete(const Context& ctx, std::string_view key, Done done) override;
  std::chrono::steady_clock::duration RetryAfter() const override { return inner_->RetryAfter(); }

 protected:
  std::unique_ptr<ObjectStore> inner_;
};

}  // namespace paddleop::volume::object
