#include "volume/object/s3/s3_xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/matchers.h"

namespace paddleop::volume::object {
namespace {

using ::testing::HasSubstr;

TEST(S3Xml, ReadsAnError) {
  const auto error = ParseS3Error(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AuthorizationHeaderMalformed</Code>"
      "<Message>wrong &amp; "
      "bad</Message><Region>eu-west-1</Region><RequestId>R1</RequestId></Error>");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, "AuthorizationHeaderMalformed");
  EXPECT_EQ(error->message, "wrong & bad");
  EXPECT_EQ(error->region, "eu-west-1");
  EXPECT_EQ(error->request_id, "R1");
  EXPECT_TRUE(ParseS3Error("<ErrorResponse><Error><Code>X</Code></Error></ErrorResponse>"));
  EXPECT_FALSE(ParseS3Error(""));
  EXPECT_FALSE(ParseS3Error("<html>not found</html>"));
  EXPECT_FALSE(ParseS3Error("<DeleteResult><Error><Code>X</Code></Error></DeleteResult>"));
}

TEST(S3Xml, ReadsAListing) {
  auto page = ParseS3List(R"(<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix>a</Prefix>
<NextContinuationToken>tok/en=</NextContinuationToken><KeyCount>3</KeyCount><MaxKeys>1000</MaxKeys>
<IsTruncated>true</IsTruncated><EncodingType>url</EncodingType>
<Contents><Key>a+b%2Bc%0A%E5%9B%BE</Key><LastModified>2024-05-06T07:08:09.123Z</LastModified>
<ETag>&#34;d41d8cd98f00b204e9800998ecf8427e&#34;</ETag><Size>12345678901</Size></Contents>
<Contents><Key>az</Key><LastModified>2024-05-06T07:08:09Z</LastModified><ETag>x</ETag><Size>0</Size></Contents>
<CommonPrefixes><Prefix>a/%20/</Prefix></CommonPrefixes></ListBucketResult>)");
  ASSERT_OK(page);
  EXPECT_TRUE(page->truncated);
  EXPECT_EQ(page->token, "tok/en=");
  ASSERT_EQ(page->entries.size(), 3u);
  EXPECT_EQ(page->entries[0].key, "a b+c\n\xe5\x9b\xbe");
  EXPECT_EQ(page->entries[0].size, 12345678901u);
  EXPECT_EQ(page->entries[0].etag, "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(page->entries[0].mtime.time_since_epoch(), std::chrono::milliseconds(1714979289123));
  EXPECT_EQ(page->entries[1].key, "a/ /");
  EXPECT_TRUE(page->entries[1].is_prefix);
  EXPECT_EQ(page->entries[2].key, "az");
}

TEST(S3Xml, KeysAreRawWhereTheServerDoesNotEncode) {
  auto page = ParseS3List(
      "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key> a+%20&lt;</Key>"
      "<LastModified>2024-05-06T07:08:09Z</LastModified><Size>1</Size></Contents></"
      "ListBucketResult>");
  ASSERT_OK(page);
  EXPECT_EQ(page->entries.at(0).key, " a+%20<");
}

TEST(S3Xml, RefusesWhatIsNotAListing) {
  for (const char* body :
       {"", "not xml", "<html/>", "<ListBucketResult>", "<a><ListBucketResult/></a>",
        "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>1x</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>",
        ("<ListBucketResult><EncodingType>url</EncodingType>"
         "<Contents><Key>%zz</Key></Contents></ListBucketResult>"),
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"}) {
    EXPECT_CODE(ParseS3List(body), Code::kCorrupt) << body;
  }
  EXPECT_CODE(ParseS3List(std::string(kMaxXmlBytes + 1, ' ')), Code::kCorrupt);
}

TEST(S3Xml, DeepNestingDoesNoHarm) {
  std::string body;
  for (int i = 0; i < 500'000; ++i) body += "<a>";
  EXPECT_CODE(ParseS3List(body), Code::kCorrupt);
  for (int i = 0; i < 500'000; ++i) body += "</a>";
  EXPECT_CODE(ParseS3List(body), Code::kCorrupt);
}

TEST(S3Xml, WritesDeletesThatSurviveAParser) {
  const std::vector<std::string> keys = {"a&b<c>\"d'", "line\nfeed\r\t", "\xe5\x9b\xbe"};
  const std::string body = S3DeleteBody(keys);
  EXPECT_THAT(body, HasSubstr("<Key>a&amp;b&lt;c&gt;&quot;d'</Key>"));
  EXPECT_THAT(body, HasSubstr("<Key>line&#10;feed&#13;&#9;</Key>"));
  EXPECT_THAT(body, HasSubstr("<Quiet>true</Quiet>"));
}

TEST(S3Xml, KnowsWhatXmlCannotHold) {
  for (const char* text :
       {"", "plain", "tab\tand\nline\r", "\xc3\xa4", "\xef\xbf\xbd", "\xf0\x9f\x98\x80"}) {
    EXPECT_TRUE(FitsIntoXml(text)) << text;
  }
  for (const char* text : {"\x01", "a\x1f", "\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80",
                           "\xef\xbf\xbe", "\xe2\x82", "\xf5\x80\x80\x80", "\xf0\x80\x80\x80"}) {
    EXPECT_FALSE(FitsIntoXml(text)) << text;
  }
  EXPECT_FALSE(FitsIntoXml(std::string_view("\0", 1)));
}

TEST(S3Xml, ReadsUploadsAndDeleteResults) {
  auto id = ParseS3UploadId(
      "<InitiateMultipartUploadResult><Bucket>b</Bucket><UploadId>u/1</UploadId></"
      "InitiateMultipartUploadResult>");
  ASSERT_OK(id);
  EXPECT_EQ(*id, "u/1");
  EXPECT_CODE(ParseS3UploadId("<InitiateMultipartUploadResult/>"), Code::kCorrupt);
  auto failed = ParseS3DeleteResult(
      "<DeleteResult><Deleted><Key>x</Key></Deleted><Error><Key>a b</Key><Code>AccessDenied</Code>"
      "<Message>no</Message></Error></DeleteResult>");
  ASSERT_OK(failed);
  ASSERT_EQ(failed->size(), 1u);
  EXPECT_EQ(failed->at(0).key, "a b");
  EXPECT_EQ(failed->at(0).error.code, "AccessDenied");
  EXPECT_EQ(S3CompleteBody(std::vector{UploadedPart{1, "e1", 5}, UploadedPart{2, "e2", 5}}),
            "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
            "<Part><PartNumber>1</PartNumber><ETag>&quot;e1&quot;</ETag></Part>"
            "<Part><PartNumber>2</PartNumber><ETag>&quot;e2&quot;</ETag></Part></"
            "CompleteMultipartUpload>");
}

}  // namespace
}  // namespace paddleop::volume::object
