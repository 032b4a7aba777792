#include "standalone/apiserver/credentials.h"

#include <fmt/format.h>

#include <chrono>

#include "base/crypto.h"
#include "base/posix.h"
#include "net/certificate_issuer.h"

namespace paddleop::standalone::apiserver {
namespace {

constexpr std::chrono::hours kAuthorityLife{24 * 3650};
constexpr std::chrono::hours kServerLife{24 * 365};

net::CertificateRequest RequestFor(const std::string& name, std::chrono::hours life) {
  const auto now = std::chrono::system_clock::now();
  net::CertificateRequest request;
  request.common_name = name;
  request.not_before = now - std::chrono::hours(1);
  request.not_after = now + life;
  return request;
}

Result<net::IssuedCertificate> OpenAuthority(const std::string& dir) {
  const std::string cert_file = dir + "/ca.crt";
  const std::string key_file = dir + "/ca.key";
  auto cert = ReadFile(cert_file);
  auto key = ReadFile(key_file);
  if (cert && key) return net::IssuedCertificate{*std::move(cert), Secret(*std::move(key))};
  if (cert.has_value() != key.has_value() && IsNotFound(cert ? key.error() : cert.error())) {
    return Fail(Code::kInvalid,
                "{} is there without {}: restore the other file, or remove both to "
                "get new ones",
                cert ? cert_file : key_file, cert ? key_file : cert_file);
  }
  if (!cert && !IsNotFound(cert.error())) return std::unexpected(std::move(cert).error());
  if (!key && !IsNotFound(key.error())) return std::unexpected(std::move(key).error());
  ASSIGN_OR_RETURN(auto made,
                   net::NewAuthority(RequestFor("paddle-operator standalone", kAuthorityLife)));
  RETURN_IF_ERROR(WriteFileAtomic(key_file, made.key.Reveal(), 0600));
  RETURN_IF_ERROR(WriteFileAtomic(cert_file, made.certificate, 0644));
  return made;
}

// Is the certificate ours, for these names, and good for a while?
bool StillGood(const std::string& pem, const net::IssuedCertificate& authority,
               const std::string& names_known, const std::string& names_wanted) {
  const auto facts = net::ReadCertificate(pem);
  if (!facts || names_known != names_wanted) return false;
  return net::IsIssuedBy(pem, authority.certificate) &&
         facts->not_after - std::chrono::system_clock::now() > kServerLife / 3;
}

}  // namespace

Result<Credentials> OpenCredentials(const std::string& dir, const std::vector<std::string>& names) {
  RETURN_IF_ERROR(MakeDirectories(dir, 0700));
  ASSIGN_OR_RETURN(const auto authority, OpenAuthority(dir));
  Credentials out;
  out.ca_pem = authority.certificate;
  out.cert_file = dir + "/server.crt";
  out.key_file = dir + "/server.key";
  std::string wanted;
  for (const std::string& name : names) wanted += name + "\n";
  const std::string names_file = dir + "/server.names";
  const auto cert = ReadFile(out.cert_file);
  const auto key = ReadFile(out.key_file);
  const auto known = ReadFile(names_file);
  if (!cert || !key || !known || !StillGood(*cert, authority, *known, wanted)) {
    auto request = RequestFor("paddle-operator standalone API server", kServerLife);
    request.names = names;
    ASSIGN_OR_RETURN(const auto made, net::IssueCertificate(authority, request));
    RETURN_IF_ERROR(WriteFileAtomic(out.key_file, made.key.Reveal(), 0600));
    RETURN_IF_ERROR(WriteFileAtomic(out.cert_file, made.certificate, 0644));
    RETURN_IF_ERROR(WriteFileAtomic(names_file, wanted, 0644));
  }
  const std::string token_file = dir + "/token";
  auto token = ReadFile(token_file);
  if (!token && !IsNotFound(token.error())) return std::unexpected(std::move(token).error());
  if (!token || token->size() < 32) {
    token = HexEncode(RandomBytes(24));
    RETURN_IF_ERROR(WriteFileAtomic(token_file, *token, 0600));
  }
  out.token = Secret(*std::move(token));
  return out;
}

std::string Kubeconfig(const Credentials& credentials, const std::string& server) {
  return fmt::format(
      "apiVersion: v1\n"
      "kind: Config\n"
      "clusters:\n"
      "- name: standalone\n"
      "  cluster:\n"
      "    server: {}\n"
      "    certificate-authority-data: {}\n"
      "users:\n"
      "- name: standalone\n"
      "  user:\n"
      "    token: {}\n"
      "contexts:\n"
      "- name: standalone\n"
      "  context:\n"
      "    cluster: standalone\n"
      "    user: standalone\n"
      "    namespace: default\n"
      "current-context: standalone\n",
      server, Base64Encode(credentials.ca_pem), credentials.token.Reveal());
}

}  // namespace paddleop::standalone::apiserver
