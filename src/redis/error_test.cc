#include "redis/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paddleop::redis {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ErrorTest, MapsRepliesToWhatACallerCanDo) {
  const std::pair<std::string_view, Code> cases[] = {
      {"LOADING Redis is loading the dataset in memory", Code::kUnavailable},
      {"READONLY You can't write against a read only replica.", Code::kUnavailable},
      {"MASTERDOWN Link with MASTER is down", Code::kUnavailable},
      {"BUSY Redis is busy running a script.", Code::kUnavailable},
      {"MISCONF Redis is configured to save RDB snapshots", Code::kUnavailable},
      {"ERR max number of clients reached", Code::kUnavailable},
      {"OOM command not allowed when used memory > 'maxmemory'.", Code::kNoSpace},
      {"NOAUTH Authentication required.", Code::kPermission},
      {"WRONGPASS invalid username-password pair or user is disabled.", Code::kPermission},
      {"NOPERM this user has no permissions to run the 'get' command", Code::kPermission},
      {"MOVED 3999 127.0.0.1:6381", Code::kNotSupported},
      {"ASK 3999 127.0.0.1:6381", Code::kNotSupported},
      {"ERR unknown command 'X'", Code::kNotSupported},
      {"NOSCRIPT No matching script.", Code::kNotFound},
      {"WRONGTYPE Operation against a key", Code::kInvalid},
      {"BUSYKEY Target key name already exists.", Code::kInvalid},
      {"EXECABORT Transaction discarded because of: MISCONF Redis is configured to save RDB "
       "snapshots",
       Code::kUnavailable},
      {"EXECABORT Transaction discarded because of: OOM command not allowed", Code::kNoSpace},
      {"EXECABORT Transaction discarded because of previous errors.", Code::kInvalid},
      {"", Code::kInvalid},
  };
  for (const auto& [text, code] : cases) {
    const Status status = StatusOfError("host:6379", text);
    EXPECT_EQ(status.code(), code) << text;
    EXPECT_THAT(status.message(), HasSubstr("host:6379"));
    EXPECT_FALSE(status.maybe_done());
  }
}

TEST(ErrorTest, SaysWhatToDo) {
  EXPECT_THAT(StatusOfError("h:1", "MOVED 1 h:2").message(), HasSubstr("not supported yet"));
  EXPECT_THAT(
      StatusOfError("h:1", "EXECABORT Transaction discarded because of: MISCONF x").message(),
      AllOf(HasSubstr("EXECABORT"), HasSubstr("cannot save its data")));
  EXPECT_THAT(StatusOfError("h:1", "NOAUTH x").message(), HasSubstr("password"));
}

TEST(ErrorTest, CutsLongTexts) {
  EXPECT_LT(StatusOfError("h:1", "ERR " + std::string(60'000, 'x')).message().size(), 500U);
}

TEST(ErrorTest, KnowsWhenAnotherConnectionMayHelp) {
  EXPECT_TRUE(AsksForAnotherConnection("READONLY x"));
  EXPECT_TRUE(AsksForAnotherConnection("ERR max number of clients reached"));
  EXPECT_TRUE(AsksForAnotherConnection("EXECABORT Transaction discarded because of: READONLY x"));
  EXPECT_FALSE(AsksForAnotherConnection("WRONGTYPE x"));
  EXPECT_FALSE(AsksForAnotherConnection("OOM x"));
}

}  // namespace
}  // namespace paddleop::redis
