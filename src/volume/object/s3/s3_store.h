#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "net/http_client.h"
#include "volume/object/bucket_endpoint.h"
#include "volume/object/credentials.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::object {

struct S3Options {
  std::string storage = "s3";  // the name in messages: "s3" or "minio"
  BucketEndpoint endpoint = {};
  Credentials credentials = {};
  // Sign the content of every request too, at the cost of one more pass over it. Without it bodies
  // are sent as UNSIGNED-PAYLOAD, as the official client does.
  bool sign_payload = false;
};

// Amazon S3, MinIO and what else speaks their protocol (Amazon S3 API reference).
//
// A wrong region and a wrong clock are corrected from the server's first answer.
std::unique_ptr<ObjectStore> NewS3Store(S3Options options, std::unique_ptr<net::HttpClient> http,
                                        Clock& clock = Clock::System());

}  // namespace paddleop::volume::object
