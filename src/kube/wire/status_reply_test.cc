#include "kube/wire/status_reply.h"

#include <gmock/gmock.h>

namespace paddleop::kube {
namespace {

using ::testing::HasSubstr;

Code CodeFor(int status, std::string_view body) {
  return StatusOfReply(status, body, "do it").code();
}

TEST(StatusOfReply, ChoosesTheCodeByReasonAndStatus) {
  EXPECT_EQ(CodeFor(404, R"({"kind":"Status","reason":"NotFound","code":404})"), Code::kNotFound);
  EXPECT_EQ(CodeFor(409, R"({"kind":"Status","reason":"AlreadyExists","code":409})"),
            Code::kAlreadyExists);
  EXPECT_EQ(CodeFor(409, R"({"kind":"Status","reason":"Conflict","code":409})"), Code::kConflict);
  EXPECT_EQ(CodeFor(410, R"({"kind":"Status","reason":"Expired","code":410})"), Code::kExpired);
  EXPECT_EQ(CodeFor(410, "gone"), Code::kExpired);
  EXPECT_EQ(CodeFor(422, R"({"kind":"Status","reason":"Invalid","code":422})"), Code::kInvalid);
  EXPECT_EQ(CodeFor(400, "bad"), Code::kInvalid);
  EXPECT_EQ(CodeFor(401, "no"), Code::kPermission);
  EXPECT_EQ(CodeFor(403, "no"), Code::kPermission);
  EXPECT_EQ(CodeFor(415, "no"), Code::kNotSupported);
  for (const int status : {408, 429, 500, 502, 503, 504})
    EXPECT_EQ(CodeFor(status, "<html>"), Code::kUnavailable) << status;
}

TEST(StatusOfReply, AFailedTestOfAJsonPatchIsAConflict) {
  const char bare[] = R"({"kind":"Status","reason":"Invalid","code":422,"details":{},
      "message":"the server rejected our request due to an error in our request"})";
  EXPECT_EQ(StatusOfReply(422, bare, "patch", true).code(), Code::kConflict);
  EXPECT_EQ(StatusOfReply(422, bare, "patch", false).code(), Code::kInvalid);
  const char refused[] = R"({"kind":"Status","reason":"Invalid","code":422,"details":{"causes":[
      {"reason":"FieldValueInvalid","message":"x","field":"spec.x"}]}})";
  EXPECT_EQ(StatusOfReply(422, refused, "patch", true).code(), Code::kInvalid)
      << "the tests held, the object that came out was bad";
  EXPECT_EQ(CodeFor(422, R"({"kind":"Status","reason":"Invalid","code":422,"details":{"causes":[
      {"reason":"FieldValueInvalid","message":"x: field is immutable","field":"metadata.uid"}]}})"),
            Code::kConflict);
}

TEST(StatusOfReply, SaysWhatTheServerSaid) {
  const Status status = StatusOfReply(
      422, R"({"kind":"Status","reason":"Invalid","code":422,"message":"spec.x: Required value"})",
      "create pods n");
  EXPECT_EQ(status.message(), "create pods n: 422 Invalid: spec.x: Required value");
  EXPECT_THAT(StatusOfReply(502, std::string(5000, 'x'), "get").message().size(),
              ::testing::Lt(300u));
}

}  // namespace
}  // namespace paddleop::kube
