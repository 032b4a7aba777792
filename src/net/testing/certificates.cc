#include "net/testing/certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cctype>

#include "base/check.h"

namespace paddleop::net::testing {
namespace {

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

KeyPtr NewKey() {
  KeyPtr key(EVP_EC_gen("P-256"));
  CHECK(key, "generate a key");
  return key;
}

std::string Drain(const BioPtr& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

std::string ToPem(X509* cert) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  CHECK(PEM_write_bio_X509(bio.get(), cert) == 1, "write a certificate");
  return Drain(bio);
}

std::string ToPem(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  CHECK(PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
        "write a key");
  return Drain(bio);
}

void Extend(X509* cert, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  CHECK(extension != nullptr, "extension {}", value);
  X509_add_ext(cert, extension, -1);
  X509_EXTENSION_free(extension);
}

X509Ptr NewCertificate(const std::string& common_name, EVP_PKEY* key, X509* issuer, long serial,
                       long valid_seconds = 3600) {
  X509Ptr cert(X509_new());
  X509_set_version(cert.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), serial);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), -7200);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), valid_seconds);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
  X509_set_issuer_name(cert.get(), X509_get_subject_name(issuer != nullptr ? issuer : cert.get()));
  X509_set_pubkey(cert.get(), key);
  return cert;
}

bool LooksLikeAddress(const std::string& name) {
  return name.find(':') != std::string::npos ||
         std::isdigit(static_cast<unsigned char>(name.back())) != 0;
}

}  // namespace

struct CertificateAuthority::Keys {
  X509Ptr cert;
  KeyPtr key;
  long serial = 1;
};

CertificateAuthority::CertificateAuthority(const std::string& name)
    : keys_(std::make_unique<Keys>()) {
  keys_->key = NewKey();
  keys_->cert = NewCertificate(name, keys_->key.get(), nullptr, 1);
  Extend(keys_->cert.get(), keys_->cert.get(), NID_basic_constraints, "critical,CA:TRUE");
  Extend(keys_->cert.get(), keys_->cert.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  CHECK(X509_sign(keys_->cert.get(), keys_->key.get(), EVP_sha256()) > 0, "sign");
  cert_pem_ = ToPem(keys_->cert.get());
}

CertificateAuthority::~CertificateAuthority() = default;

Certificate CertificateAuthority::Issue(const std::string& common_name,
                                        const std::vector<std::string>& names,
                                        long valid_seconds) const {
  const KeyPtr key = NewKey();
  const X509Ptr cert =
      NewCertificate(common_name, key.get(), keys_->cert.get(), ++keys_->serial, valid_seconds);
  std::string alternatives;
  for (const std::string& name : names) {
    if (!alternatives.empty()) alternatives += ",";
    alternatives += (LooksLikeAddress(name) ? "IP:" : "DNS:") + name;
  }
  if (!alternatives.empty()) {
    Extend(cert.get(), keys_->cert.get(), NID_subject_alt_name, alternatives);
  }
  Extend(cert.get(), keys_->cert.get(), NID_ext_key_usage, "serverAuth,clientAuth");
  CHECK(X509_sign(cert.get(), keys_->key.get(), EVP_sha256()) > 0, "sign");
  return {ToPem(cert.get()), ToPem(key.get())};
}

}  // namespace paddleop::net::testing
