#include "net/certificate_issuer.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::net {
namespace {

using std::chrono::hours;

CertificateRequest For(std::string name, std::vector<std::string> names = {}) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return {std::move(name), std::move(names), now - hours(1), now + hours(24)};
}

TEST(CertificateIssuer, IssuesWhatItsAuthorityVouchesFor) {
  auto authority = NewAuthority(For("set a"));
  ASSERT_OK(authority);
  const auto request = For("a", {"*.a-runtime-service.n.svc", "127.0.0.1"});
  auto issued = IssueCertificate(*authority, request);
  ASSERT_OK(issued);
  EXPECT_TRUE(IsIssuedBy(issued->certificate, authority->certificate));
  auto facts = ReadCertificate(issued->certificate);
  ASSERT_OK(facts);
  EXPECT_EQ(facts->names, std::vector<std::string>{"*.a-runtime-service.n.svc"});
  EXPECT_EQ(facts->not_after, request.not_after);
  EXPECT_EQ(facts->not_before, request.not_before);

  auto other = NewAuthority(For("set a"));
  ASSERT_OK(other);
  EXPECT_FALSE(IsIssuedBy(issued->certificate, other->certificate));
}

TEST(CertificateIssuer, RefusesAKeyOfAnotherAuthority) {
  auto a = NewAuthority(For("a"));
  auto b = NewAuthority(For("b"));
  ASSERT_OK(a);
  ASSERT_OK(b);
  EXPECT_CODE(IssueCertificate({a->certificate, b->key}, For("x")), Code::kInvalid);
  EXPECT_CODE(IssueCertificate({"", Secret("")}, For("x")), Code::kInvalid);
  EXPECT_CODE(ReadCertificate("nonsense"), Code::kInvalid);
  EXPECT_FALSE(IsIssuedBy("", a->certificate));
}

}  // namespace
}  // namespace paddleop::net
