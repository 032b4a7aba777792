#include "volume/format/codec.h"

#include <gtest/gtest.h>

#include "base/crypto.h"
#include "base/testing/matchers.h"

namespace paddleop::volume {
namespace {

Attr SampleFile() {
  Attr attr;
  attr.type = FileType::kFile;
  attr.mode = 0644;
  attr.uid = attr.gid = 1000;
  attr.atime = {.seconds = 1700000000, .nanos = 1};
  attr.mtime = {.seconds = 1700000001, .nanos = 2};
  attr.ctime = {.seconds = 1700000002, .nanos = 3};
  attr.nlink = 1;
  attr.length = 5;
  attr.parent = kRootIno;
  return attr;
}

constexpr std::string_view kSampleFileHex =
    "0011a4000003e8000003e8000000006553f10000000001000000006553f10100000002000000006553f10200000003"
    "0000"
    "00010000000000000005000000000000000000000001"
    "00";

TEST(AttrCodec, MatchesTheGoldenFile) {
  EXPECT_EQ(HexEncode(EncodeAttr(SampleFile())), kSampleFileHex);
  const auto attr = DecodeAttr(*HexDecode(kSampleFileHex));
  ASSERT_OK(attr);
  EXPECT_EQ(*attr, SampleFile());
}

TEST(AttrCodec, MatchesTheGoldenRoot) {
  Attr root;
  root.type = FileType::kDirectory;
  root.mode = 0777;
  root.nlink = 2;
  root.length = 4096;
  root.parent = kRootIno;
  root.atime = root.mtime = root.ctime = {.seconds = 1700000000, .nanos = 0};
  EXPECT_EQ(HexEncode(EncodeAttr(root)),
            "0021ff0000000000000000000000006553f10000000000000000006553f10000000000000000006553f100"
            "0000000"
            "0000000020000000000001000000000000000000000000001"
            "00");
}

TEST(AttrCodec, HasTheFourOfficialSizes) {
  Attr attr = SampleFile();
  EXPECT_EQ(EncodeAttr(attr).size(), 72U);
  attr.tier = 2;
  EXPECT_EQ(EncodeAttr(attr).size(), 73U);
  attr.access_acl = 7;
  EXPECT_EQ(EncodeAttr(attr).size(), 81U);
  attr.tier = 0;
  EXPECT_EQ(EncodeAttr(attr).size(), 80U);
}

TEST(AttrCodec, CarriesAclTierAndUnknownTail) {
  for (const std::uint32_t acl : {0U, 9U}) {
    for (const std::uint8_t tier : {std::uint8_t{0}, std::uint8_t{3}}) {
      for (const std::string& tail : {std::string(), std::string("\x01"), std::string("abcdefghij"),
                                      std::string("\0\0", 2)}) {
        Attr attr = SampleFile();
        attr.default_acl = acl;
        attr.tier = tier;
        attr.tail = tail;
        const auto again = DecodeAttr(EncodeAttr(attr));
        ASSERT_OK(again);
        EXPECT_EQ(*again, attr);
      }
    }
  }
}

TEST(AttrCodec, AcceptsAttributesWithoutParent) {
  const std::string bytes = EncodeAttr(SampleFile()).substr(0, 63);
  const auto attr = DecodeAttr(bytes);
  ASSERT_OK(attr);
  EXPECT_EQ(attr->parent, kNoIno);
  EXPECT_EQ(attr->length, 5U);
  EXPECT_CODE(DecodeAttr(bytes.substr(0, 62)), Code::kCorrupt);
}

TEST(AttrCodec, RefusesUnknownTypes) {
  std::string bytes = EncodeAttr(SampleFile());
  bytes[1] = '\0';
  EXPECT_CODE(DecodeAttr(bytes), Code::kCorrupt);
}

TEST(EdgeCodec, MatchesTheGoldenEntry) {
  const Edge edge{.ino = Ino{2}, .type = FileType::kFile};
  EXPECT_EQ(HexEncode(EncodeEdge(edge)), "010000000000000002");
  EXPECT_EQ(*DecodeEdge(EncodeEdge(edge)), edge);
  EXPECT_CODE(DecodeEdge("12345678"), Code::kCorrupt);
}

TEST(SliceCodec, MatchesTheGoldenRecord) {
  const std::vector<Slice> slices = {{.pos = 0, .id = 1, .size = 5, .off = 0, .len = 5}};
  EXPECT_EQ(HexEncode(EncodeSlices(slices)), "000000000000000000000001000000050000000000000005");
  const auto again = DecodeSlices(EncodeSlices(slices));
  ASSERT_OK(again);
  EXPECT_EQ(*again, slices);
}

TEST(SliceCodec, RefusesRecordsOutOfBounds) {
  EXPECT_CODE(DecodeSlices("short"), Code::kCorrupt);
  const std::vector<Slice> past_chunk = {
      {.pos = 1, .id = 0, .size = 0, .off = 0, .len = static_cast<std::uint32_t>(kChunkSize)}};
  EXPECT_CODE(DecodeSlices(EncodeSlices(past_chunk)), Code::kCorrupt);
  const std::vector<Slice> past_slice = {{.pos = 0, .id = 3, .size = 5, .off = 1, .len = 5}};
  EXPECT_CODE(DecodeSlices(EncodeSlices(past_slice)), Code::kCorrupt);
}

TEST(SliceCodec, ListsOfWholeSlices) {
  const std::vector<SliceKey> slices = {{.id = 7, .size = 4096}, {.id = 8, .size = 1}};
  EXPECT_EQ(*DecodeSliceKeys(EncodeSliceKeys(slices)), slices);
  EXPECT_CODE(DecodeSliceKeys("x"), Code::kCorrupt);
}

}  // namespace
}  // namespace paddleop::volume
