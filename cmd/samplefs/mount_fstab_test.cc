#include "samplefs/mount_fstab.h"

#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::cmd {
namespace {

// The options of the line that `words` make.
std::string FstabOptions(std::vector<std::string> words) {
  words.insert(words.begin(), {"samplefs", "mount", "redis://h/1", "/m"});
  auto line = FstabLine(words, "redis://h/1", "/m");
  if (!line) return line.error().message();
  const std::string before = "redis://h/1 /m samplefs ", after = " 0 0";
  EXPECT_TRUE(line->starts_with(before) && line->ends_with(after)) << *line;
  return line->substr(before.size(), line->size() - before.size() - after.size());
}

TEST(Fstab, OptionsAreFoundHoweverTheyAreWritten) {
  EXPECT_EQ(FstabOptions({"-o", "ro,noatime"}), "_netdev,ro,noatime");
  EXPECT_EQ(FstabOptions({"-oro,noatime"}), "_netdev,ro,noatime");
  EXPECT_EQ(FstabOptions({"-do", "ro,noatime"}), "_netdev,ro,noatime");
  EXPECT_EQ(FstabOptions({"-dofoo"}), "_netdev,foo");
  EXPECT_EQ(FstabOptions({"-d", "-o", "ro", "--cache-size", "5"}), "_netdev,ro,cache-size=5");
}

TEST(Fstab, APasswordIsNotWrittenWhereOthersRead) {
  const std::string secret = "redis://:hidden@h/1";
  for (const mode_t mode : {0644U, 0640U, 0604U}) {
    const auto refused = CheckFstabReaders(secret, mode);
    EXPECT_CODE(refused, Code::kPermission);
    EXPECT_NE(refused.error().message().find("chmod 600"), std::string::npos);
    EXPECT_EQ(refused.error().message().find("hidden"), std::string::npos);
    EXPECT_OK(CheckFstabReaders("redis://user@h/1", mode));
    EXPECT_OK(CheckFstabReaders("sqlite3:///v.db", mode));
  }
  EXPECT_OK(CheckFstabReaders(secret, 0600));
}

}  // namespace
}  // namespace paddleop::cmd
