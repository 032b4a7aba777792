#pragma once

#include <memory>

#include "base/clock.h"
#include "net/http_client.h"
#include "volume/object/bucket_endpoint.h"
#include "volume/object/credentials.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::object {

struct BosOptions {
  BucketEndpoint endpoint = {};
  Credentials credentials = {};
};

// Baidu Object Storage, in its own protocol. (Its S3-compatible addresses are an `s3` storage.)
std::unique_ptr<ObjectStore> NewBosStore(BosOptions options, std::unique_ptr<net::HttpClient> http,
                                         Clock& clock = Clock::System());

}  // namespace paddleop::volume::object
