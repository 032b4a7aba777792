#include "standalone/node/endpoint/endpoint_files.h"

#include "base/posix.h"
#include "net/certificate_issuer.h"

namespace paddleop::standalone::node {
namespace {

constexpr std::chrono::hours kValid{24 * 365};
constexpr std::chrono::hours kRenewBefore{24 * 120};

bool IsGood(const std::string& file, Clock& clock) {
  const auto text = ReadFile(file);
  if (!text) return false;
  const auto facts = net::ReadCertificate(*text);
  return facts && facts->not_after - clock.WallNow() > kRenewBefore;
}

}  // namespace

Result<net::ServerTls> EndpointCertificate(const std::string& directory,
                                           const std::vector<std::string>& addresses,
                                           Clock& clock) {
  RETURN_IF_ERROR(MakeDirectories(directory, 0700));
  net::ServerTls tls;
  tls.cert_file = directory + "/endpoint.crt";
  tls.key_file = directory + "/endpoint.key";
  if (IsGood(tls.cert_file, clock) && ReadFile(tls.key_file)) return tls;
  net::CertificateRequest request{.common_name = "paddle-operator node",
                                  .names = addresses,
                                  .not_before = clock.WallNow() - std::chrono::hours(1),
                                  .not_after = clock.WallNow() + kValid};
  ASSIGN_OR_RETURN(const auto authority, net::NewAuthority(request));
  ASSIGN_OR_RETURN(const auto issued, net::IssueCertificate(authority, request));
  RETURN_IF_ERROR(WriteFileAtomic(tls.key_file, issued.key.Reveal(), 0600));
  RETURN_IF_ERROR(WriteFileAtomic(tls.cert_file, issued.certificate, 0644));
  return tls;
}

}  // namespace paddleop::standalone::node
