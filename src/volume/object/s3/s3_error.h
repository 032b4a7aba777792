#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "volume/object/s3/s3_xml.h"

namespace paddleop::volume::object {

// What a failed request is about, for the message.
struct S3Subject {
  std::string what = {};  // "get s3://bucket/key"
  std::string bucket = {};
  std::string endpoint = {};  // "http://127.0.0.1:9000"
  bool has_body = true;       // an answer to HEAD never has one
};

// The one place that reads S3's errors: the code by what a caller can do, the message with the
// server's own words and what to do about it. `error` has no code where the answer had no XML.
Status S3Status(const S3Subject& subject, int http_status, const S3Error& error);

}  // namespace paddleop::volume::object
