#include "volume/object/internal/rest_error.h"

#include <algorithm>
#include <array>

#include "net/http.h"

namespace paddleop::volume::object::internal {
namespace {

struct Row {
  std::string_view error;
  Code code;
  std::string_view advice;
};

// Sorted for the reader by what to do. A missing bucket is not kNotFound: that would read as "this
// object is missing", and a Delete would take it for success.
constexpr std::array kRows = {
    Row{"NoSuchKey", Code::kNotFound, ""},
    Row{"NoSuchUpload", Code::kNotFound, ""},
    Row{"NoSuchVersion", Code::kNotFound, ""},
    Row{"NoSuchBucket", Code::kInvalid, "create the bucket or correct its name"},
    Row{"InvalidBucketName", Code::kInvalid, "correct the name of the bucket"},
    Row{"PermanentRedirect", Code::kInvalid, "use the address that serves this bucket"},
    Row{"AuthorizationHeaderMalformed", Code::kInvalid, "set the bucket's region"},
    Row{"AccessDenied", Code::kPermission, "these keys (or no keys) may not do this"},
    Row{"AllAccessDisabled", Code::kPermission, ""},
    Row{"AccountProblem", Code::kPermission, ""},
    Row{"InvalidAccessKeyId", Code::kPermission, "the store does not know this access key"},
    Row{"SignatureDoesNotMatch", Code::kPermission, "check the secret key"},
    Row{"InvalidToken", Code::kPermission, "check the session token"},
    Row{"InvalidTokenId", Code::kPermission, "check the session token"},
    Row{"ExpiredToken", Code::kPermission, "get a new session token"},
    Row{"RequestTimeTooSkewed", Code::kPermission, "set the clock of this machine"},
    Row{"RequestExpired", Code::kPermission, "set the clock of this machine"},
    Row{"XMinioAdminNoSuchUser", Code::kPermission, "the store does not know this access key"},
    Row{"InvalidObjectState", Code::kInvalid, "the object is archived: restore it first"},
    Row{"KeyTooLongError", Code::kNameTooLong, ""},
    Row{"PreconditionFailed", Code::kConflict, "the object has changed"},
    Row{"BucketAlreadyExists", Code::kAlreadyExists, "the bucket belongs to somebody else"},
    Row{"BucketAlreadyOwnedByYou", Code::kAlreadyExists, ""},
    // The body that arrived is not the one that was sent, or it came too slowly.
    Row{"BadDigest", Code::kUnavailable, ""},
    Row{"IncompleteBody", Code::kUnavailable, ""},
    Row{"XAmzContentSHA256Mismatch", Code::kUnavailable, ""},
    Row{"RequestTimeout", Code::kUnavailable, ""},
    Row{"OperationAborted", Code::kUnavailable, ""},
    Row{"SlowDown", Code::kUnavailable, ""},
    Row{"SlowDownRead", Code::kUnavailable, ""},
    Row{"SlowDownWrite", Code::kUnavailable, ""},
    Row{"ServiceUnavailable", Code::kUnavailable, ""},
    Row{"InternalError", Code::kUnavailable, ""},
    Row{"NotImplemented", Code::kNotSupported, ""},
    Row{"XMinioStorageFull", Code::kNoSpace, "the store is full"},
    Row{"QuotaExceeded", Code::kQuota, ""},
    Row{"XMinioAdminBucketQuotaExceeded", Code::kQuota, ""},
};

Code CodeOfHttp(int status) {
  switch (status) {
    case 412:
      return Code::kConflict;
    case 501:
      return Code::kNotSupported;
    case 507:
      return Code::kNoSpace;
    default:
      return net::StatusOfHttp(status, "").code();
  }
}

}  // namespace

Status RestStatus(const RestSubject& subject, int http_status, const RestError& error) {
  if (error.code.empty()) {
    // Who answers 404 without saying what is missing is no such store; taking it for a missing
    // object would make data look lost.
    if (subject.has_body && http_status == 404) {
      return Status(
          Code::kInvalid,
          fmt::format("{}: HTTP 404 without an error of the store; is {} really its endpoint?",
                      subject.what, subject.endpoint));
    }
    return Status(CodeOfHttp(http_status), fmt::format("{}: HTTP {} {}", subject.what, http_status,
                                                       net::ReasonPhrase(http_status)));
  }
  const auto row =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.error == error.code; });
  std::string message = fmt::format("{}: {}: {}", subject.what, error.code, error.message);
  if (error.code == "NoSuchBucket") {
    message = fmt::format("{}: {}: there is no bucket {} at {}", subject.what, error.code,
                          subject.bucket, subject.endpoint);
  }
  if (row != kRows.end() && !row->advice.empty()) message += fmt::format("; {}", row->advice);
  if (!error.endpoint.empty()) message += fmt::format(" (endpoint {})", error.endpoint);
  if (!error.region.empty()) message += fmt::format(" (region {})", error.region);
  message += fmt::format(" [HTTP {}{}{}]", http_status,
                         error.request_id.empty() ? "" : ", request ", error.request_id);
  return Status(row != kRows.end() ? row->code : CodeOfHttp(http_status), std::move(message));
}

}  // namespace paddleop::volume::object::internal
