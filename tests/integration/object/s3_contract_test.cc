// The contract of every ObjectStore, on a real MinIO, in the ways a bucket can be addressed and
// signed.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/testing/matchers.h"
#include "integration/object/minio.h"
#include "net/http_client.h"
#include "volume/object/prefix_store.h"
#include "volume/object/s3/s3_store.h"
#include "volume/object/testing/object_store_contract.h"

namespace paddleop::volume::object::testing {
namespace {

std::unique_ptr<ObjectStore> OpenBare(const BucketEndpoint& endpoint, bool sign_payload) {
  auto http = net::HttpClient::Create();
  EXPECT_OK(http);
  return NewS3Store({.endpoint = endpoint,
                     .credentials = {.access_key = Minio().Get("access_key"),
                                     .secret_key = Secret(Minio().Get("secret_key"))},
                     .sign_payload = sign_payload},
                    *std::move(http));
}

std::unique_ptr<ObjectStore> OpenSigned() {
  auto endpoint = ParseS3Bucket(BucketAddress(NewBucketName()), ProcessEnvironment());
  EXPECT_OK(endpoint);
  return OpenBare(*endpoint, true);
}

std::unique_ptr<ObjectStore> OpenByHost() {
  const std::string port = Minio().Get("endpoint").substr(Minio().Get("endpoint").rfind(':'));
  auto endpoint = ParseS3Bucket(fmt::format("http://{}.localhost{}", NewBucketName(), port),
                                [](const char* name) -> std::optional<std::string> {
                                  if (std::string_view(name) == "JFS_S3_VHOST_STYLE") return "1";
                                  return std::nullopt;
                                });
  EXPECT_OK(endpoint);
  EXPECT_FALSE(endpoint->path_style);
  return OpenBare(*endpoint, false);
}

// MinIO keeps objects as directories, so no key may lie under another; names are UTF-8.
StoreCase Case(std::string name, std::function<std::unique_ptr<ObjectStore>()> open) {
  return {
      .name = std::move(name), .open = std::move(open), .flat_keys = false, .binary_keys = false};
}

INSTANTIATE_TEST_SUITE_P(
    Minio, ObjectStoreContract,
    ::testing::Values(Case("OpenStore", [] { return NewBucket(); }),
                      Case("SignedPayload", OpenSigned), Case("VirtualHost", OpenByHost),
                      StoreCase{.name = "Prefix",
                                .open = [] { return WithPrefix(NewBucket(), "some volume/"); },
                                .flat_keys = false,
                                .binary_keys = false,
                                .empty_key = true}),
    NameOfCase);

}  // namespace
}  // namespace paddleop::volume::object::testing
