#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/secret.h"
#include "base/status.h"

namespace paddleop::net {

// A certificate and its private key, as PEM text.
struct IssuedCertificate {
  std::string certificate;
  Secret key;
};

struct CertificateRequest {
  std::string common_name;         // at most 64 bytes count; the rest is cut
  std::vector<std::string> names;  // DNS names, also "*.domain", and addresses
  std::chrono::system_clock::time_point not_before;
  std::chrono::system_clock::time_point not_after;
};

// A certificate authority of its own: an EC P-256 key and a self-signed certificate that may only
// sign certificates of servers and clients.
Result<IssuedCertificate> NewAuthority(const CertificateRequest& request);

// A certificate for a server (and for the same program as a client), signed by the authority.
// kInvalid if the authority's texts are not a certificate with its key.
Result<IssuedCertificate> IssueCertificate(const IssuedCertificate& authority,
                                           const CertificateRequest& request);

struct CertificateFacts {
  std::chrono::system_clock::time_point not_before;
  std::chrono::system_clock::time_point not_after;
  std::vector<std::string> names;  // DNS names only
};

// Reads the first certificate of a PEM text. kInvalid if there is none.
Result<CertificateFacts> ReadCertificate(const std::string& pem);

// True if the certificate was signed by the authority.
bool IsIssuedBy(const std::string& certificate_pem, const std::string& authority_pem);

}  // namespace paddleop::net
