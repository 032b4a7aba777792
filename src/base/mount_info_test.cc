#include "base/mount_info.h"

#include <gtest/gtest.h>

namespace paddleop {
namespace {

TEST(MountInfo, OctalBecomesTheCharacter) {
  EXPECT_EQ(UnescapeMountPath("/mnt/plain"), "/mnt/plain");
  EXPECT_EQ(UnescapeMountPath("/mnt/a\\040b\\011c\\012d\\134e"), "/mnt/a b\tc\nd\\e");
  EXPECT_EQ(UnescapeMountPath("\\040"), " ");
}

TEST(MountInfo, WhatIsNoEscapeStays) {
  for (const char* text : {"\\", "/a\\04", "/a\\09x", "/a\\xyz"})
    EXPECT_EQ(UnescapeMountPath(text), text);
}

}  // namespace
}  // namespace paddleop
