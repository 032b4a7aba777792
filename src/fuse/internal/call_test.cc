#include "fuse/internal/call.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace paddleop::fuse {
namespace {

int ErrnoFor(Op op, Code code) { return ErrnoOf(op, Status(code, "refused")); }

TEST(ErrnoOf, KeysThatTheStoreRefusesAreNoMatterOfPermissions) {
  for (const Op op : {Op::kRead, Op::kWrite, Op::kFlush, Op::kFsync, Op::kRelease})
    EXPECT_EQ(ErrnoFor(op, Code::kPermission), EIO) << static_cast<int>(op);
  EXPECT_EQ(ErrnoFor(Op::kUnlink, Code::kPermission), EPERM) << "of an immutable file";
  EXPECT_EQ(ErrnoFor(Op::kSetAttr, Code::kPermission), EPERM);
}

TEST(ErrnoOf, WhoHasAFileOpenIsNotToldThatThereIsNoSuchName) {
  EXPECT_EQ(ErrnoFor(Op::kRead, Code::kNotFound), ESTALE) << "the file is gone";
  for (const Op op : {Op::kWrite, Op::kFlush, Op::kFsync, Op::kRelease})
    EXPECT_EQ(ErrnoFor(op, Code::kNotFound), EIO) << "or where it was to be stored";
  EXPECT_EQ(ErrnoFor(Op::kGetAttr, Code::kNotFound), ESTALE);
  EXPECT_EQ(ErrnoFor(Op::kLookup, Code::kNotFound), ENOENT);
}

}  // namespace
}  // namespace paddleop::fuse
