// Certificates made on the spot, so that TLS tests need no files that expire.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace paddleop::net::testing {

struct Certificate {
  std::string cert_pem;
  std::string key_pem;
};

// A certificate authority that lives as long as the test.
class CertificateAuthority {
 public:
  explicit CertificateAuthority(const std::string& name = "test CA");
  ~CertificateAuthority();

  const std::string& cert_pem() const { return cert_pem_; }
  // Good for an hour, as server and as client; `names` are host names or IP addresses. Negative
  // `valid_seconds` make one that has expired.
  Certificate Issue(const std::string& common_name, const std::vector<std::string>& names,
                    long valid_seconds = 3600) const;

 private:
  struct Keys;
  std::unique_ptr<Keys> keys_;
  std::string cert_pem_;
};

}  // namespace paddleop::net::testing
