#include "volume/object/checksum_store.h"

#include <utility>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "volume/object/forwarding_store.h"

namespace paddleop::volume::object {
namespace {

PutOptions Recording(const PutOptions& options, std::span<const std::byte> data) {
  PutOptions with_checksum = options;
  if (!with_checksum.crc32c) with_checksum.crc32c = Crc32c(AsText(data));
  return with_checksum;
}

Result<void> Verify(const std::string& name, std::string_view key, const GetResult& got,
                    std::span<const std::byte> data) {
  if (!got.crc32c) return {};
  const std::uint32_t actual =
      got.received_crc32c ? *got.received_crc32c : Crc32c(AsText(data.first(got.size)));
  if (actual == *got.crc32c) return {};
  return Fail(Code::kCorrupt, "{}{}: {} bytes with CRC-32C {}, but its writer recorded {}", name,
              key, got.size, actual, *got.crc32c);
}

class ChecksumStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  Result<GetResult> Get(const Context& ctx, std::string_view key, const GetOptions& options,
                        std::span<std::byte> out) override {
    auto got = inner_->Get(ctx, key, options, out);
    if (got && options.range.whole()) RETURN_IF_ERROR(Verify(name(), key, *got, out));
    return got;
  }

  Result<void> Put(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                   const PutOptions& options) override {
    return inner_->Put(ctx, key, data, Recording(options, data));
  }

  void StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                std::span<std::byte> out, GetDone done) override {
    if (!options.range.whole()) return inner_->StartGet(ctx, key, options, out, std::move(done));
    inner_->StartGet(ctx, key, options, out,
                     [name = name(), key = std::string(key), out,
                      done = std::move(done)](Result<GetResult> got) {
                       if (got) {
                         auto verified = Verify(name, key, *got, out);
                         if (!verified) return done(std::unexpected(verified.error()));
                       }
                       done(std::move(got));
                     });
  }

  void StartPut(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                const PutOptions& options, Done done) override {
    inner_->StartPut(ctx, key, data, Recording(options, data), std::move(done));
  }
};

}  // namespace

std::unique_ptr<ObjectStore> WithChecksum(std::unique_ptr<ObjectStore> inner) {
  if (!inner->traits().metadata) return inner;
  return std::make_unique<ChecksumStore>(std::move(inner));
}

}  // namespace paddleop::volume::object
