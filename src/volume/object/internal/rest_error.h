#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace paddleop::volume::object::internal {

// What a store says about a failure. S3 says it in XML, BOS in JSON, in the same words.
struct RestError {
  std::string code = {};
  std::string message = {};
  std::string region = {};    // where the bucket really is
  std::string endpoint = {};  // and under which address
  std::string request_id = {};
};

// What a failed request is about, for the message.
struct RestSubject {
  std::string what = {};  // "get s3://bucket/key"
  std::string bucket = {};
  std::string endpoint = {};  // "http://127.0.0.1:9000"
  bool has_body = true;       // an answer to HEAD never has one
};

// The one place that reads the stores' errors: the code by what a caller can do, the message with
// the server's own words and what to do about it. `error` has no code where the answer had none.
Status RestStatus(const RestSubject& subject, int http_status, const RestError& error);

}  // namespace paddleop::volume::object::internal
