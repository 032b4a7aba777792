// The files of a runtime's --auth-dir, made on the spot.
#pragma once

#include <string>

#include "base/posix.h"
#include "net/testing/certificates.h"
#include "runtime/protocol/paths.h"

namespace paddleop::runtime::testing {

inline constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

// Writes token, authority, certificate and key for partition `index` of "set" in "ns".
inline Result<void> WriteAuthDir(const std::string& dir,
                                 const net::testing::CertificateAuthority& authority,
                                 std::uint32_t index, const std::string& token = kToken) {
  RETURN_IF_ERROR(MakeDirectories(dir));
  const auto certificate = authority.Issue("runtime", {RuntimeTlsName("set", "ns", index)});
  const auto file = [&](std::string_view name) { return dir + "/" + std::string(name); };
  RETURN_IF_ERROR(WriteFileAtomic(file(kTokenFile), token + "\n", 0600));
  RETURN_IF_ERROR(WriteFileAtomic(file(kCaFile), authority.cert_pem()));
  RETURN_IF_ERROR(WriteFileAtomic(file(kCertificateFile), certificate.cert_pem));
  return WriteFileAtomic(file(kKeyFile), certificate.key_pem, 0600);
}

}  // namespace paddleop::runtime::testing
