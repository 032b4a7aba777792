#include "volume/format/setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"
#include "base/testing/matchers.h"

namespace paddleop::volume {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kUuid = "e267db92-051d-4214-b1aa-e97bf61bff1a";
// As the official 1.3.1 writes it, byte for byte.
constexpr std::string_view kOfficial = R"({
"Name": "myjfs",
"UUID": "e267db92-051d-4214-b1aa-e97bf61bff1a",
"Storage": "file",
"Bucket": "/data/jfs/",
"BlockSize": 4096,
"Compression": "none",
"EncryptAlgo": "aes256gcm-rsa",
"TrashDays": 1,
"MetaVersion": 1,
"MinClientVersion": "1.1.0-A",
"DirStats": true,
"EnableACL": false
})";

Setting Sample() {
  Setting s;
  s.name = "myjfs";
  s.uuid = kUuid;
  s.bucket = "/data/jfs/";
  return s;
}

TEST(Setting, IsWrittenInTheOfficialStyle) {
  EXPECT_EQ(*Sample().ToJson(), kOfficial);
  const auto again = Setting::Parse(kOfficial);
  ASSERT_OK(again);
  EXPECT_EQ(*again, Sample());
}

TEST(Setting, UnknownMembersSurviveARewrite) {
  const auto s = Setting::Parse(
      R"( {"Name":"abc","UUID":"u","BlockSize":64,"Tiers":{"0":{"ID":0,"Tag":""}},"RangerRestUrl":"x"} )");
  ASSERT_OK(s);
  EXPECT_EQ(s->trash_days, 0) << "absent members are zero, not the default of format";
  EXPECT_FALSE(s->dir_stats);
  const std::string json = *s->ToJson();
  EXPECT_THAT(json, HasSubstr("\"RangerRestUrl\": \"x\""));
  EXPECT_THAT(json, HasSubstr("\"Tiers\": {\n\"0\": {\n\"ID\": 0,"));
  EXPECT_EQ(*Setting::Parse(json), *s);
}

TEST(Setting, SecretsAreObfuscatedAndComeBack) {
  EXPECT_EQ(HexEncode(Md5(kUuid)), "8aacf0bebc779a3d82147c845d3d2e79");
  Setting s = Sample();
  s.secret_key = Secret("hush");
  s.session_token = Secret("token");
  const std::string json = *s.ToJson();
  EXPECT_THAT(json, Not(HasSubstr("hush")));
  EXPECT_THAT(json, HasSubstr("\"KeyEncrypted\": true"));
  EXPECT_EQ(*Setting::Parse(json), s);
  EXPECT_THAT(s.ToPublicJson(), Not(HasSubstr("hush")));
  EXPECT_THAT(s.ToPublicJson(), HasSubstr("removed"));
}

TEST(Setting, SecretsThatCannotBeReadAreRefused) {
  EXPECT_CODE(Setting::Parse(R"({"Name":"abc","UUID":"u","BlockSize":64,"SecretKey":"removed"})"),
              Code::kInvalid);
  EXPECT_CODE(
      Setting::Parse(
          R"({"Name":"abc","UUID":"u","BlockSize":64,"SecretKey":"AAAA","KeyEncrypted":true})"),
      Code::kCorrupt);
  const std::string other = *ObfuscateSecret("another", "hush");
  EXPECT_CODE(RevealSecret(kUuid, other), Code::kCorrupt);
}

TEST(Setting, BrokenSettingsNameTheMember) {
  const auto wrong = Setting::Parse(R"({"Name":"abc","UUID":"u","BlockSize":"4096"})");
  ASSERT_CODE(wrong, Code::kCorrupt);
  EXPECT_THAT(wrong.error().message(), HasSubstr("BlockSize"));
  EXPECT_CODE(Setting::Parse("[]"), Code::kCorrupt);
  EXPECT_CODE(Setting::Parse("{"), Code::kCorrupt);
  EXPECT_CODE(Setting::Parse(R"({"UUID":"u","BlockSize":64})"), Code::kCorrupt);
  EXPECT_CODE(Setting::Parse(R"({"Name":"abc","UUID":"u","BlockSize":100})"), Code::kCorrupt);
  EXPECT_CODE(Setting::Parse(std::string(100, '[')), Code::kCorrupt);
}

TEST(Setting, NewVolumesAreValidated) {
  EXPECT_OK(Sample().ValidateNew());
  for (const char* name : {"ab", "Abc", "-abc", "abc-", "a_c", ""}) {
    Setting s = Sample();
    s.name = name;
    EXPECT_CODE(s.ValidateNew(), Code::kInvalid) << name;
  }
  Setting s = Sample();
  s.block_size_kib = 5000;
  EXPECT_CODE(s.ValidateNew(), Code::kInvalid);
}

TEST(Setting, VolumesWeCannotServeAreRefused) {
  auto refuse = [](auto change, const char* why) {
    Setting s = Sample();
    change(s);
    const auto result = s.CheckReadable();
    ASSERT_CODE(result, Code::kNotSupported);
    EXPECT_THAT(result.error().message(), HasSubstr(why));
  };
  refuse([](Setting& s) { s.meta_version = 2; }, "MetaVersion 2");
  refuse([](Setting& s) { s.min_client_version = "1.4.0-A"; }, "MinClientVersion");
  refuse([](Setting& s) { s.max_client_version = "1.2.0"; }, "MaxClientVersion");
  refuse([](Setting& s) { s.compression = "brotli"; }, "brotli");
  refuse([](Setting& s) { s.encrypt_key = Secret("pem"); }, "encrypted");
}

TEST(Setting, SomeVolumesAreReadOnlyForUs) {
  for (bool Setting::* member :
       {&Setting::change_log, &Setting::enable_acl, &Setting::user_group_quota}) {
    Setting s = Sample();
    s.*member = true;
    EXPECT_OK(s.CheckReadable());
    EXPECT_CODE(s.CheckWritable(), Code::kNotSupported);
  }
}

TEST(Versions, AreOrdered) {
  EXPECT_EQ(*CompareVersions("1.3.1", "1.3.1+abc"), 0);
  EXPECT_LT(*CompareVersions("1.1.0-A", "1.1.0"), 0);
  EXPECT_LT(*CompareVersions("1.1.0", "1.3.1"), 0);
  EXPECT_GT(*CompareVersions("1.10.0", "1.9.9"), 0);
  EXPECT_CODE(CompareVersions("x", "1.0.0"), Code::kInvalid);
}

}  // namespace
}  // namespace paddleop::volume
