#include "volume/object/s3/sigv4.h"

#include "base/crypto.h"
#include "volume/object/internal/times.h"

namespace paddleop::volume::object {
namespace {

std::string SignedHeaders(const SigV4Request& request) {
  std::string names;
  for (const auto& [name, value] : request.headers) {
    if (!names.empty()) names.push_back(';');
    names += name;
  }
  return names;
}

}  // namespace

SigV4Signer::SigV4Signer(Credentials credentials, std::string region, std::string service)
    : credentials_(std::move(credentials)),
      region_(std::move(region)),
      service_(std::move(service)) {}

std::string SigV4Signer::CanonicalRequest(const SigV4Request& request) {
  std::string text = request.method + "\n" + request.path + "\n" + request.query + "\n";
  for (const auto& [name, value] : request.headers)
    text.append(name).append(":").append(value).append("\n");
  text += "\n" + SignedHeaders(request) + "\n" + request.payload_hash;
  return text;
}

std::shared_ptr<const SigV4Signer::DayKey> SigV4Signer::KeyOf(const std::string& day) const {
  {
    MutexLock lock(mutex_);
    if (cached_ && cached_->day == day) return cached_;
  }
  std::string key = HmacSha256("AWS4" + credentials_.secret_key.Reveal(), day);
  key = HmacSha256(key, region_);
  key = HmacSha256(key, service_);
  key = HmacSha256(key, "aws4_request");
  auto derived = std::make_shared<const DayKey>(DayKey{day, std::move(key)});
  MutexLock lock(mutex_);
  cached_ = derived;
  return derived;
}

std::string SigV4Signer::Authorization(const SigV4Request& request,
                                       std::chrono::system_clock::time_point now) const {
  const std::string time = internal::BasicTime(now);
  const std::string day = time.substr(0, 8);
  const std::string scope = day + "/" + region_ + "/" + service_ + "/aws4_request";
  const std::string to_sign = "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" +
                              HexEncode(Sha256(CanonicalRequest(request)));
  const std::string signature = HexEncode(HmacSha256(KeyOf(day)->key, to_sign));
  return "AWS4-HMAC-SHA256 Credential=" + credentials_.access_key + "/" + scope +
         ",SignedHeaders=" + SignedHeaders(request) + ",Signature=" + signature;
}

}  // namespace paddleop::volume::object
