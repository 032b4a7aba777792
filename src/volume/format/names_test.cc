#include <gtest/gtest.h>

#include "base/testing/matchers.h"
#include "volume/format/object_key.h"
#include "volume/format/redis_keys.h"
#include "volume/format/trash.h"
#include "volume/format/types.h"

namespace paddleop::volume {
namespace {

TEST(Names, EntriesFollowTheRules) {
  EXPECT_OK(ValidateName("a"));
  EXPECT_OK(ValidateName(std::string(255, 'x')));
  EXPECT_CODE(ValidateName(std::string(256, 'x')), Code::kNameTooLong);
  for (const std::string& name : {std::string(), std::string("."), std::string(".."),
                                  std::string("a/b"), std::string("a\0b", 3)}) {
    EXPECT_CODE(ValidateName(name), Code::kInvalid) << name;
  }
}

TEST(Names, SpaceIsChargedInPages) {
  EXPECT_EQ(ChargedSpace(std::uint64_t{0}), 4096U);
  EXPECT_EQ(ChargedSpace(std::uint64_t{1}), 4096U);
  EXPECT_EQ(ChargedSpace(std::uint64_t{4096}), 4096U);
  EXPECT_EQ(ChargedSpace(std::uint64_t{4097}), 8192U);
  Attr link;
  link.type = FileType::kSymlink;
  link.length = 10000;
  EXPECT_EQ(ChargedSpace(link), 4096U);
}

TEST(Names, RedisKeys) {
  const RedisKeys keys;
  EXPECT_EQ(keys.Attr(kRootIno), "i1");
  EXPECT_EQ(keys.Dir(kTrashIno), "d9223372032828243968");
  EXPECT_EQ(keys.Chunk(Ino{2}, 3), "c2_3");
  EXPECT_EQ(RedisKeys("{1}").Setting(), "{1}setting");
  EXPECT_EQ(SliceRefField({.id = 7, .size = 4096}), "k7_4096");
  EXPECT_EQ(*ParseSliceRefField("k7_4096"), (SliceKey{.id = 7, .size = 4096}));
  EXPECT_CODE(ParseSliceRefField("k7_"), Code::kCorrupt);
  EXPECT_EQ(*ParseDelFileMember(DelFileMember(Ino{2}, 5)), std::pair(Ino{2}, std::uint64_t{5}));
  EXPECT_CODE(ParseDelFileMember("2"), Code::kCorrupt);
  EXPECT_EQ(*ParseChunkKey("c2_3"), std::pair(Ino{2}, std::uint32_t{3}));
  EXPECT_CODE(ParseChunkKey("counter_x"), Code::kCorrupt);
}

TEST(Names, BlocksOfASlice) {
  const BlockLayout layout{.block_size = 4U << 20, .hash_prefix = false};
  EXPECT_EQ(BlockCount(layout, 0), 0U);
  EXPECT_EQ(BlockCount(layout, 4U << 20), 1U);
  EXPECT_EQ(BlockCount(layout, (4U << 20) + 1), 2U);
  EXPECT_EQ(BlockLength(layout, (4U << 20) + 1, 0), 4U << 20);
  EXPECT_EQ(BlockLength(layout, (4U << 20) + 1, 1), 1U);
  EXPECT_EQ(BlockLength(layout, 5, 1), 0U);
  EXPECT_EQ(BlockKey(layout, {.slice = 1, .index = 0, .length = 5}), "chunks/0/0/1_0_5");
  EXPECT_EQ(BlockKey(layout, {.slice = 1234567, .index = 2, .length = 9}),
            "chunks/1/1234/1234567_2_9");
  EXPECT_EQ(BlockKey({.block_size = 4U << 20, .hash_prefix = true},
                     {.slice = 1234567, .index = 2, .length = 9}),
            "chunks/87/1/1234567_2_9");
}

TEST(Names, BlockKeysAreReadBack) {
  const BlockId block{.slice = 1234567, .index = 2, .length = 9};
  EXPECT_EQ(*ParseBlockKey(BlockKey({}, block)), block);
  EXPECT_EQ(*ParseBlockKey("1234567_2_9"), block);
  for (const char* key : {"", "a", "1_2", "1_2_", "1_2_3_4", "1_2_3x", "chunks/0/0/.tmp"}) {
    EXPECT_CODE(ParseBlockKey(key), Code::kInvalid) << key;
  }
}

TEST(Names, ShardsAreFnv1a) {
  EXPECT_EQ(ShardOf("", 256), 2166136261U % 256);
  EXPECT_EQ(ShardOf("a", 1000), 0xE40C292CU % 1000);
  EXPECT_EQ(ShardOf("a", 0), 0U);
}

TEST(Names, Trash) {
  const auto time = std::chrono::system_clock::from_time_t(1794787312);
  EXPECT_EQ(TrashHourName(time), "2026-11-16-00");
  const auto hour = ParseTrashHour("2026-11-16-00");
  ASSERT_TRUE(hour.has_value());
  EXPECT_EQ(TrashHourName(*hour), "2026-11-16-00");
  EXPECT_FALSE(ParseTrashHour("2026-11-16").has_value());
  EXPECT_FALSE(ParseTrashHour("2026-11-16-00x").has_value());
  EXPECT_EQ(TrashEntryName(kRootIno, Ino{2}, "a"), "1-2-a");
  EXPECT_EQ(TrashEntryName(kRootIno, Ino{2}, std::string(255, 'x')).size(), 255U);
}

}  // namespace
}  // namespace paddleop::volume
