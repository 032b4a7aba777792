#include "base/crypto.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop {
namespace {

TEST(Crypto, DigestsMatchKnownValues) {
  EXPECT_EQ(HexEncode(Md5("e267db92-051d-4214-b1aa-e97bf61bff1a")),
            "8aacf0bebc779a3d82147c845d3d2e79");
  EXPECT_EQ(HexEncode(Sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HexEncode(HmacSha256("key", "The quick brown fox jumps over the lazy dog")),
            "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8");
}

TEST(Crypto, EncodingsGoBothWays) {
  for (std::string text : {"", "a", "ab", "abc", "abcd"}) {
    EXPECT_EQ(*Base64Decode(Base64Encode(text)), text);
    EXPECT_EQ(*HexDecode(HexEncode(text)), text);
  }
  EXPECT_EQ(Base64Encode("hello"), "aGVsbG8=");
  for (auto bad : {"a", "aGVsbG8", "aGVs bG8=", "a===", "aGVs\nbG8="})
    EXPECT_CODE(Base64Decode(bad), Code::kInvalid);
  EXPECT_CODE(HexDecode("0g"), Code::kInvalid);
  EXPECT_EQ(UrlEncode("a b/\xc3\xa9~", "/"), "a%20b/%C3%A9~");
  EXPECT_EQ(*UrlDecode("a%20b%2F"), "a b/");
  EXPECT_CODE(UrlDecode("a%2"), Code::kInvalid);
}

TEST(Crypto, SealedTextOpensOnlyWithItsKey) {
  const std::string key(16, 'k'), nonce(12, 'n');
  auto sealed = Aes128GcmSeal(key, nonce, "secret");
  ASSERT_OK(sealed);
  EXPECT_EQ(*Aes128GcmOpen(key, nonce, *sealed), "secret");
  EXPECT_CODE(Aes128GcmOpen(std::string(16, 'x'), nonce, *sealed), Code::kCorrupt);
  EXPECT_CODE(Aes128GcmOpen(key, nonce, "short"), Code::kCorrupt);
}

TEST(Crypto, UuidsAreWellFormed) {
  const std::string uuid = RandomUuid();
  ASSERT_EQ(uuid.size(), 36u);
  EXPECT_EQ(uuid[14], '4');
  EXPECT_NE(uuid, RandomUuid());
  // The DNS namespace and name of RFC 4122's examples.
  EXPECT_EQ(*NameUuid("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "www.example.com"),
            "2ed6657d-e927-568b-95e1-2665a8aea6a2");
  EXPECT_CODE(NameUuid("nonsense", "x"), Code::kInvalid);
}

TEST(Crypto, ComparesTokens) {
  EXPECT_TRUE(ConstantTimeEquals("abc", "abc"));
  EXPECT_FALSE(ConstantTimeEquals("abc", "abd"));
  EXPECT_FALSE(ConstantTimeEquals("abc", "ab"));
}

}  // namespace
}  // namespace paddleop
