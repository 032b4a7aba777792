#include "base/bytes.h"

#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/testing/matchers.h"

namespace paddleop {
namespace {

TEST(Bytes, WritesAndReadsNetworkOrder) {
  std::string out;
  ByteWriter w(out);
  w.U8(1);
  w.U16(0x0203);
  w.U32(0x04050607);
  w.U64(0x08090a0b0c0d0e0f);
  EXPECT_EQ(out, std::string("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"));
  ByteReader r(out);
  EXPECT_EQ(r.U8(), 1);
  EXPECT_EQ(r.U16(), 0x0203);
  EXPECT_EQ(r.U32(), 0x04050607u);
  EXPECT_EQ(r.U64(), 0x08090a0b0c0d0e0fu);
  EXPECT_TRUE(r.ok());
  EXPECT_EQ(r.U16(), 0);
  EXPECT_FALSE(r.ok());
}

TEST(Bytes, SizesReadAsInTheManual) {
  EXPECT_EQ(FormatSize(0), "0 B");
  EXPECT_EQ(FormatSize(200), "200 B");
  EXPECT_EQ(FormatSize(4096), "4.0 KiB");
  EXPECT_EQ(FormatSize(58ull << 20), "58 MiB");
  EXPECT_EQ(FormatSize(7838315315ull), "7.3 GiB");
  EXPECT_EQ(FormatSize(10189u), "10 KiB");
  EXPECT_EQ(FormatSize((1ull << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatSize(~0ull), "16 EiB");
}

TEST(Bytes, ParsesSizesAndNamesWhatIsWrong) {
  EXPECT_EQ(*ParseSize("4096"), 4096u);
  EXPECT_EQ(*ParseSize("64K"), 65536u);
  EXPECT_EQ(*ParseSize("4MiB"), 4u << 20);
  EXPECT_EQ(*ParseSize("1.5 gb"), 3u << 29);
  for (auto bad : {"", "x", "-1", "4X", "1e30", "4KK", "nan"})
    EXPECT_CODE(ParseSize(bad), Code::kInvalid);
}

TEST(Bytes, GroupsDigits) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(128660), "128,660");
  EXPECT_EQ(FormatCount(1000000), "1,000,000");
}

TEST(Crc32c, MatchesKnownValues) {
  EXPECT_EQ(Crc32c("hello"), 0x9a71bb4cu);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c("lo", Crc32c("hel")), Crc32c("hello"));
}

TEST(Crc32c, IsTheSameWhateverThePieces) {
  std::string text(40'000, '\0');
  std::uint32_t random = 1;
  for (char& c : text) c = static_cast<char>((random = random * 1'103'515'245 + 12'345) >> 16);
  std::uint32_t byte_by_byte = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view so_far(text.data(), i + 1);
    byte_by_byte = Crc32c(so_far.substr(i), byte_by_byte);
    if (i % 511 != 0 && i + 1 != text.size()) continue;
    ASSERT_EQ(Crc32c(so_far), byte_by_byte) << i;
    ASSERT_EQ(Crc32c(so_far.substr(i / 3), Crc32c(so_far.substr(0, i / 3))), byte_by_byte) << i;
    const std::string_view second = so_far.substr(i / 3);
    ASSERT_EQ(Crc32cJoin(Crc32c(so_far.substr(0, i / 3)), Crc32c(second), second.size()),
              byte_by_byte)
        << i;
  }
}

}  // namespace
}  // namespace paddleop
