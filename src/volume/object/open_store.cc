#include "volume/object/open_store.h"

#include <utility>

#include "net/http_client.h"
#include "volume/object/bos/bos_store.h"
#include "volume/object/checksum_store.h"
#include "volume/object/file/file_store.h"
#include "volume/object/hdfs/hdfs_store.h"
#include "volume/object/metrics_store.h"
#include "volume/object/redis/redis_store.h"
#include "volume/object/s3/s3_store.h"

namespace paddleop::volume::object {
namespace {

// Room for a page of the longest keys; objects go into the caller's buffers.
constexpr std::size_t kMaxReplyBytes = 16 << 20;

Result<Credentials> CredentialsOf(const StorageConfig& config) {
  if (config.access_key == "anonymous") return Credentials{};
  if (config.access_key.empty() != config.secret_key.empty()) {
    return Fail(Code::kInvalid, "storage {} at {}: the {} key is missing", config.storage,
                RedactUrl(config.bucket), config.access_key.empty() ? "access" : "secret");
  }
  return Credentials{config.access_key, config.secret_key, config.session_token};
}

Result<std::unique_ptr<net::HttpClient>> NewClient(const StoreOptions& options,
                                                   const net::ClientTls& tls) {
  return net::HttpClient::Create({.tls = tls,
                                  .connect_timeout = options.connect_timeout,
                                  .stall_timeout = options.stall_timeout,
                                  .max_connections_per_host = options.max_connections,
                                  .max_response_bytes = kMaxReplyBytes});
}

Result<std::unique_ptr<ObjectStore>> OpenS3(const StorageConfig& config,
                                            const StoreOptions& options) {
  ASSIGN_OR_RETURN(BucketEndpoint endpoint,
                   config.storage == "minio" ? ParseMinioBucket(config.bucket, options.environment)
                                             : ParseS3Bucket(config.bucket, options.environment));
  ASSIGN_OR_RETURN(Credentials credentials, CredentialsOf(config));
  ASSIGN_OR_RETURN(auto client, NewClient(options, endpoint.tls));
  const bool checksum = endpoint.checksum;
  auto store = NewS3Store({.storage = config.storage,
                           .endpoint = std::move(endpoint),
                           .credentials = std::move(credentials),
                           .sign_payload = options.sign_payload},
                          std::move(client), *options.clock);
  return checksum ? WithChecksum(std::move(store)) : std::move(store);
}

Result<std::unique_ptr<ObjectStore>> OpenBos(const StorageConfig& config,
                                             const StoreOptions& options) {
  ASSIGN_OR_RETURN(BucketEndpoint endpoint, ParseBosBucket(config.bucket, options.environment));
  ASSIGN_OR_RETURN(Credentials credentials, CredentialsOf(config));
  ASSIGN_OR_RETURN(auto client, NewClient(options, endpoint.tls));
  const bool checksum = endpoint.checksum;
  auto store = NewBosStore({.endpoint = std::move(endpoint), .credentials = std::move(credentials)},
                           std::move(client), *options.clock);
  return checksum ? WithChecksum(std::move(store)) : std::move(store);
}

Result<std::unique_ptr<ObjectStore>> OpenHdfs(const StorageConfig& config,
                                              const StoreOptions& options) {
  std::string user = config.access_key;
  if (user.empty()) user = options.environment("HADOOP_USER_NAME").value_or("");
  if (user.empty()) user = options.environment("USER").value_or("root");
  ASSIGN_OR_RETURN(auto client,
                   net::HttpClient::Create({.connect_timeout = options.connect_timeout,
                                            .stall_timeout = options.stall_timeout,
                                            .max_connections_per_host = options.max_connections,
                                            .max_response_bytes = kMaxReplyBytes,
                                            .follow_redirects = true}));
  return NewHdfsStore({.endpoint = config.bucket, .user = std::move(user)}, std::move(client));
}

Result<std::unique_ptr<ObjectStore>> OpenEngine(const StorageConfig& config,
                                                const StoreOptions& options) {
  if (config.storage == "file") return OpenFileStore(config.bucket, {.sync = options.sync_files});
  if (config.storage == "s3" || config.storage == "minio") return OpenS3(config, options);
  if (config.storage == "bos") return OpenBos(config, options);
  if (config.storage == "hdfs") return OpenHdfs(config, options);
  if (config.storage == "redis") {
    return OpenRedisStore({.bucket = config.bucket,
                           .user = config.access_key,
                           .password = config.secret_key,
                           .metrics = options.metrics});
  }
  return Fail(Code::kNotSupported,
              "storage \"{}\" is not supported; use file, s3, minio, bos or redis", config.storage);
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> OpenStore(StorageConfig config, const StoreOptions& options) {
  config.Trim();
  if (config.shards > 1) {
    return Fail(
        Code::kNotSupported,
        "the volume is spread over {} buckets (Shards), which is not supported; use the official "
        "client, or copy the volume into one made without --shards",
        config.shards);
  }
  if (config.bucket.empty())
    return Fail(Code::kInvalid, "storage {}: no bucket is given", config.storage);
  config.FillKeys(options.environment);
  ASSIGN_OR_RETURN(auto store, OpenEngine(config, options));
  if (!store->traits().asynchronous) store = WithThreads(std::move(store), options.threads);
  if (options.metrics != nullptr) store = WithMetrics(std::move(store), *options.metrics);
  store = WithBandwidthLimit(std::move(store), options.limit, *options.clock);
  return WithRetry(std::move(store), options.retry, *options.clock, options.metrics);
}

}  // namespace paddleop::volume::object
