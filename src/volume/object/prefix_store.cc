#include "volume/object/prefix_store.h"

namespace paddleop::volume::object {
namespace {

class PrefixStore final : public ForwardingStore {
 public:
  PrefixStore(std::unique_ptr<ObjectStore> inner, std::string prefix)
      : ForwardingStore(std::move(inner)), prefix_(std::move(prefix)) {}

  std::string name() const override { return inner_->name() + prefix_; }

  Result<GetResult> Get(const Context& ctx, std::string_view key, const GetOptions& options,
                        std::span<std::byte> out) override {
    return inner_->Get(ctx, Full(key), options, out);
  }
  Result<void> Put(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                   const PutOptions& options) override {
    return inner_->Put(ctx, Full(key), data, options);
  }
  Result<void> Delete(const Context& ctx, std::string_view key) override {
    return inner_->Delete(ctx, Full(key));
  }
  Result<std::vector<KeyError>> DeleteMany(const Context& ctx,
                                           std::span<const std::string> keys) override;
  Result<ObjectInfo> Head(const Context& ctx, std::string_view key) override;
  Result<void> List(const Context& ctx, const ListOptions& options,
                    const ListVisitor& visit) override;
  Result<void> Copy(const Context& ctx, std::string_view from, std::string_view to) override {
    return inner_->Copy(ctx, Full(from), Full(to));
  }
  Result<std::string> CreateUpload(const Context& ctx, std::string_view key,
                                   const PutOptions& options) override {
    return inner_->CreateUpload(ctx, Full(key), options);
  }
  Result<UploadedPart> UploadPart(const Context& ctx, std::string_view key,
                                  const std::string& upload, int number,
                                  std::span<const std::byte> data) override {
    return inner_->UploadPart(ctx, Full(key), upload, number, data);
  }
  Result<void> CompleteUpload(const Context& ctx, std::string_view key, const std::string& upload,
                              std::span<const UploadedPart> parts) override {
    return inner_->CompleteUpload(ctx, Full(key), upload, parts);
  }
  Result<void> AbortUpload(const Context& ctx, std::string_view key,
                           const std::string& upload) override {
    return inner_->AbortUpload(ctx, Full(key), upload);
  }
  void StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                std::span<std::byte> out, GetDone done) override {
    inner_->StartGet(ctx, Full(key), options, out, std::move(done));
  }
  void StartPut(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                const PutOptions& options, Done done) override {
    inner_->StartPut(ctx, Full(key), data, options, std::move(done));
  }
  void StartDelete(const Context& ctx, std::string_view key, Done done) override {
    inner_->StartDelete(ctx, Full(key), std::move(done));
  }

 private:
  std::string Full(std::string_view key) const { return prefix_ + std::string(key); }

  const std::string prefix_;
};

Result<std::vector<KeyError>> PrefixStore::DeleteMany(const Context& ctx,
                                                      std::span<const std::string> keys) {
  std::vector<std::string> full;
  full.reserve(keys.size());
  for (const std::string& key : keys) full.push_back(Full(key));
  ASSIGN_OR_RETURN(std::vector<KeyError> failed, inner_->DeleteMany(ctx, full));
  for (KeyError& failure : failed) failure.key.erase(0, prefix_.size());
  return failed;
}

Result<ObjectInfo> PrefixStore::Head(const Context& ctx, std::string_view key) {
  ASSIGN_OR_RETURN(ObjectInfo info, inner_->Head(ctx, Full(key)));
  info.key.erase(0, prefix_.size());
  return info;
}

Result<void> PrefixStore::List(const Context& ctx, const ListOptions& options,
                               const ListVisitor& visit) {
  ListOptions full = options;
  full.prefix = prefix_ + options.prefix;
  // An empty start_after means "from the first key"; the prefix itself would leave out a key that
  // equals it.
  if (!options.start_after.empty()) full.start_after = prefix_ + options.start_after;
  return inner_->List(ctx, full, [&](ObjectInfo& entry) {
    entry.key.erase(0, prefix_.size());
    return visit(entry);
  });
}

}  // namespace

std::unique_ptr<ObjectStore> WithPrefix(std::unique_ptr<ObjectStore> inner, std::string prefix) {
  if (prefix.empty()) return inner;
  return std::make_unique<PrefixStore>(std::move(inner), std::move(prefix));
}

}  // namespace paddleop::volume::object
