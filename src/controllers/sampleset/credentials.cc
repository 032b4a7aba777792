#include "controllers/sampleset/credentials.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/crypto.h"
#include "controllers/common/child.h"
#include "controllers/sampleset/names.h"
#include "controllers/sampleset/objects.h"
#include "net/certificate_issuer.h"

namespace paddleop::controllers::sampleset {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr hours kLifetime(24 * 365);
constexpr hours kAuthorityLifetime(24 * 365 * 10);
constexpr hours kPreviousTokenLifetime(1);
// Clocks of nodes differ.
constexpr hours kSkew(1);

std::vector<std::string> ServerNames(const api::SampleSet& set) {
  const std::string service =
      fmt::format("{}.{}.svc", ServiceName(set.metadata.name), set.metadata.ns);
  return {"*." + service, service};
}

std::string Text(const api::SecretObject& secret, const char* key) {
  const auto it = secret.data.find(key);
  return it == secret.data.end() ? std::string() : it->second.Reveal();
}

// When two thirds of the certificate's life are over; nullopt if it cannot be used at all.
std::optional<api::Time> RenewalTime(const std::string& certificate) {
  const auto facts = net::ReadCertificate(certificate);
  if (!facts) return std::nullopt;
  const auto life = facts->not_after - facts->not_before;
  return std::chrono::floor<seconds>(facts->not_before + life * 2 / 3);
}

}  // namespace

AuthReview ReviewAuth(const api::SampleSet& set, const api::SecretObject* auth, api::Time now) {
  AuthReview review{.work = {}, .recheck = hours(24)};
  if (auth == nullptr) {
    review.work.authority = true;
    return review;
  }
  const std::string authority = Text(*auth, auth_key::kAuthority);
  const std::string certificate = Text(*auth, auth_key::kCertificate);
  const auto authority_renewal = RenewalTime(authority);
  if (!authority_renewal || *authority_renewal <= now ||
      Text(*auth, auth_key::kAuthorityKey).empty()) {
    review.work.authority = true;
    return review;
  }
  const auto renewal = RenewalTime(certificate);
  const auto facts = net::ReadCertificate(certificate);
  if (!renewal || !facts || facts->names != ServerNames(set) ||
      Text(*auth, auth_key::kKey).empty() || !net::IsIssuedBy(certificate, authority)) {
    review.work.certificate = true;
  } else if (*renewal <= now) {
    // They were made together and are renewed together.
    review.work.certificate = true;
    review.work.token = true;
  } else {
    review.recheck = std::min<seconds>(review.recheck, *renewal - now);
  }
  if (auth->Value(auth_key::kToken).empty()) review.work.token = true;
  if (auth->Has(auth_key::kPreviousToken)) {
    const auto rotated = api::ParseTime(auth->metadata.Annotation(kRotatedAnnotation));
    const auto until = rotated ? *rotated + kPreviousTokenLifetime : now;
    if (until <= now) {
      review.work.drop_previous = true;
    } else {
      review.recheck = std::min<seconds>(review.recheck, until - now);
    }
  }
  return review;
}

Result<CreateObject> MakeAuth(const api::SampleSet& set, const api::SecretObject* auth,
                              const AuthWork& work, api::Time now) {
  const std::string name = RuntimeAuthName(set.metadata.name);
  api::Json metadata = ChildMetadata(api::SampleSet::kType, set.metadata, name, ChildLabels(set));
  metadata["annotations"]["CreatedBy"] = "paddle-operator";
  api::Json data = api::Json::object();
  net::CertificateRequest request{
      .common_name = ServiceName(set.metadata.name),
      .names = ServerNames(set),
      .not_before = now - kSkew,
      .not_after = now + kLifetime,
  };
  net::IssuedCertificate authority;
  if (work.authority || auth == nullptr) {
    net::CertificateRequest root = request;
    root.common_name = set.metadata.name + " runtime authority";
    root.not_after = now + kAuthorityLifetime;
    ASSIGN_OR_RETURN(authority, net::NewAuthority(root));
    // Runtimes learn of a new authority some time after us: until then both are good.
    const std::string before = auth == nullptr ? "" : Text(*auth, auth_key::kAuthority);
    const bool keep = net::ReadCertificate(before).has_value();
    data[auth_key::kAuthority] = Base64Encode(authority.certificate + (keep ? before : ""));
    data[auth_key::kAuthorityKey] = Base64Encode(authority.key.Reveal());
  } else {
    authority = {Text(*auth, auth_key::kAuthority), Secret(Text(*auth, auth_key::kAuthorityKey))};
  }
  if (work.authority || work.certificate || auth == nullptr) {
    ASSIGN_OR_RETURN(const auto issued, net::IssueCertificate(authority, request));
    data[auth_key::kCertificate] = Base64Encode(issued.certificate);
    data[auth_key::kKey] = Base64Encode(issued.key.Reveal());
  }
  const std::string token = auth == nullptr ? "" : auth->Value(auth_key::kToken).Reveal();
  if (work.token || work.authority || token.empty()) {
    data[auth_key::kToken] = Base64Encode(HexEncode(RandomBytes(32)));
    if (!token.empty()) {
      data[auth_key::kPreviousToken] = Base64Encode(token);
      metadata["annotations"][kRotatedAnnotation] = api::FormatTime(now);
    }
  } else if (work.drop_previous) {
    data[auth_key::kPreviousToken] = nullptr;
    metadata["annotations"][kRotatedAnnotation] = nullptr;
  }
  return CreateObject{api::SecretObject::kType,
                      {set.metadata.ns, name},
                      api::DumpJson({{"apiVersion", "v1"},
                                     {"kind", "Secret"},
                                     {"metadata", metadata},
                                     {"type", "Opaque"},
                                     {"data", data}})};
}

}  // namespace paddleop::controllers::sampleset
