#include "net/certificate_issuer.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <cctype>
#include <ctime>
#include <memory>

namespace paddleop::net {
namespace {

using std::chrono::system_clock;

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using X509Ptr = std::unique_ptr<X509, Free<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, Free<BIO_free>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, Free<GENERAL_NAMES_free>>;

// The library's own words for its last failure.
std::unexpected<Status> Failed(std::string_view what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return Fail(Code::kInternal, "{}: {}", what, text.data());
}

BioPtr Reading(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

X509Ptr ParseCertificate(const std::string& pem) {
  const BioPtr bio = Reading(pem);
  X509Ptr cert(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return cert;
}

std::string Drain(const BioPtr& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

Result<IssuedCertificate> ToPem(X509* cert, EVP_PKEY* key) {
  const BioPtr cert_text(BIO_new(BIO_s_mem()));
  const BioPtr key_text(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(cert_text.get(), cert) != 1 ||
      PEM_write_bio_PrivateKey(key_text.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return Failed("write a certificate");
  }
  return IssuedCertificate{Drain(cert_text), Secret(Drain(key_text))};
}

bool Extend(X509* cert, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  if (extension == nullptr) return false;
  const bool added = X509_add_ext(cert, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

bool SetSerial(X509* cert) {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) return false;
  bytes[0] &= 0x7f;  // positive
  BIGNUM* number = BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr);
  if (number == nullptr) return false;
  const bool set = BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != nullptr;
  BN_free(number);
  return set;
}

Result<X509Ptr> NewCertificate(const CertificateRequest& request, EVP_PKEY* key, X509* issuer) {
  X509Ptr cert(X509_new());
  const auto begin = system_clock::to_time_t(request.not_before);
  const auto end = system_clock::to_time_t(request.not_after);
  const std::string common_name = request.common_name.substr(0, 64);
  if (!cert || X509_set_version(cert.get(), 2) != 1 || !SetSerial(cert.get()) ||
      ASN1_TIME_set(X509_getm_notBefore(cert.get()), begin) == nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(cert.get()), end) == nullptr ||
      X509_NAME_add_entry_by_txt(X509_get_subject_name(cert.get()), "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(common_name.c_str()), -1,
                                 -1, 0) != 1 ||
      X509_set_issuer_name(cert.get(),
                           X509_get_subject_name(issuer != nullptr ? issuer : cert.get())) != 1 ||
      X509_set_pubkey(cert.get(), key) != 1) {
    return Failed("make a certificate");
  }
  return cert;
}

bool LooksLikeAddress(const std::string& name) {
  return name.find(':') != std::string::npos ||
         (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0);
}

system_clock::time_point ToTime(const ASN1_TIME* time) {
  std::tm fields{};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return {};
  return system_clock::from_time_t(timegm(&fields));
}

}  // namespace

Result<IssuedCertificate> NewAuthority(const CertificateRequest& request) {
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return Failed("generate a key");
  ASSIGN_OR_RETURN(const X509Ptr cert, NewCertificate(request, key.get(), nullptr));
  if (!Extend(cert.get(), cert.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !Extend(cert.get(), cert.get(), NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !Extend(cert.get(), cert.get(), NID_subject_key_identifier, "hash") ||
      X509_sign(cert.get(), key.get(), EVP_sha256()) <= 0) {
    return Failed("sign a certificate");
  }
  return ToPem(cert.get(), key.get());
}

Result<IssuedCertificate> IssueCertificate(const IssuedCertificate& authority,
                                           const CertificateRequest& request) {
  const X509Ptr issuer = ParseCertificate(authority.certificate);
  const BioPtr key_text = Reading(authority.key.Reveal());
  const KeyPtr issuer_key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
  if (!issuer || !issuer_key || X509_check_private_key(issuer.get(), issuer_key.get()) != 1) {
    ERR_clear_error();
    return Fail(Code::kInvalid, "the authority's certificate and key do not belong together");
  }
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return Failed("generate a key");
  ASSIGN_OR_RETURN(const X509Ptr cert, NewCertificate(request, key.get(), issuer.get()));
  std::string names;
  for (const std::string& name : request.names) {
    names += (names.empty() ? "" : ",") + std::string(LooksLikeAddress(name) ? "IP:" : "DNS:");
    names += name;
  }
  if (!Extend(cert.get(), issuer.get(), NID_basic_constraints, "critical,CA:FALSE") ||
      !Extend(cert.get(), issuer.get(), NID_key_usage, "critical,digitalSignature") ||
      !Extend(cert.get(), issuer.get(), NID_ext_key_usage, "serverAuth,clientAuth") ||
      (!names.empty() && !Extend(cert.get(), issuer.get(), NID_subject_alt_name, names)) ||
      X509_sign(cert.get(), issuer_key.get(), EVP_sha256()) <= 0) {
    return Failed("sign a certificate");
  }
  return ToPem(cert.get(), key.get());
}

Result<CertificateFacts> ReadCertificate(const std::string& pem) {
  const X509Ptr cert = ParseCertificate(pem);
  if (!cert) return Fail(Code::kInvalid, "not a certificate in PEM form");
  CertificateFacts facts{
      ToTime(X509_get0_notBefore(cert.get())), ToTime(X509_get0_notAfter(cert.get())), {}};
  const NamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(cert.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS) continue;
    facts.names.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                             static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
  }
  return facts;
}

bool IsIssuedBy(const std::string& certificate_pem, const std::string& authority_pem) {
  const X509Ptr cert = ParseCertificate(certificate_pem);
  const X509Ptr issuer = ParseCertificate(authority_pem);
  if (!cert || !issuer) return false;
  const bool good = X509_verify(cert.get(), X509_get0_pubkey(issuer.get())) == 1;
  ERR_clear_error();
  return good;
}

}  // namespace paddleop::net
