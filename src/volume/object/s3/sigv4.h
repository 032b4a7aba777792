#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "volume/object/credentials.h"

namespace paddleop::volume::object {

// What Signature Version 4 signs of a request: everything already encoded, as it is sent.
struct SigV4Request {
  std::string method = {};
  std::string path = {};   // each byte of a key encoded once, '/' kept
  std::string query = {};  // "name=value" pairs, encoded, in order, with '&'
  // Lower-case names in order, values without outer spaces.
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string payload_hash = {};  // hex SHA-256 of the body, or kUnsignedPayload
};

inline constexpr char kUnsignedPayload[] = "UNSIGNED-PAYLOAD";

// Signs requests to one service in one region (Amazon S3 API reference, "Authenticating Requests:
// Using the Authorization Header"). Thread-safe; the key derived for a day is kept.
class SigV4Signer {
 public:
  SigV4Signer(Credentials credentials, std::string region, std::string service = "s3");

  // The value of the Authorization header. The caller sends x-amz-date with BasicTime(now) and has
  // it among the headers.
  std::string Authorization(const SigV4Request& request,
                            std::chrono::system_clock::time_point now) const;

  const Credentials& credentials() const { return credentials_; }
  const std::string& region() const { return region_; }

  // The text whose digest is signed; public for its tests.
  static std::string CanonicalRequest(const SigV4Request& request);

 private:
  struct DayKey {
    std::string day;
    std::string key;
  };
  std::shared_ptr<const DayKey> KeyOf(const std::string& day) const;

  const Credentials credentials_;
  const std::string region_;
  const std::string service_;
  mutable Mutex mutex_;
  mutable std::shared_ptr<const DayKey> cached_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::volume::object
