#include "volume/object/s3/s3_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/testing/manual_clock.h"
#include "base/testing/matchers.h"
#include "volume/object/retry_store.h"
#include "volume/object/testing/fake_http.h"

namespace paddleop::volume::object::testing {
namespace {

using net::HttpRequest;
using net::HttpResponse;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

HttpResponse Answer(int status, std::string body = "", net::HttpHeaders headers = {}) {
  return {.status = status, .headers = std::move(headers), .body = std::move(body)};
}
HttpResponse ErrorAnswer(int status, std::string_view code, net::HttpHeaders headers = {}) {
  return Answer(status, fmt::format("<Error><Code>{}</Code><Message>words</Message></Error>", code),
                std::move(headers));
}
std::string Header(const HttpRequest& request, std::string_view name) {
  return std::string(request.headers.Get(name).value_or("(none)"));
}

class S3StoreTest : public ::testing::Test {
 protected:
  // `bucket` as for `--storage s3 --bucket`.
  void Open(std::string_view bucket, Credentials credentials, FakeHttpClient::Handler handler,
            bool sign_payload = false) {
    auto endpoint = ParseS3Bucket(bucket, [](const char*) { return std::nullopt; });
    ASSERT_OK(endpoint);
    auto http = std::make_unique<FakeHttpClient>(std::move(handler));
    http_ = http.get();
    store_ = NewS3Store({.endpoint = *endpoint,
                         .credentials = std::move(credentials),
                         .sign_payload = sign_payload},
                        std::move(http), clock_);
  }
  void Open(FakeHttpClient::Handler handler) {
    Open("http://127.0.0.1:9000/bkt", {.access_key = "AK", .secret_key = Secret("hidden")},
         std::move(handler));
  }
  Result<GetResult> Get(std::string_view key, const GetOptions& options = {}) {
    return store_->Get(ctx_, key, options, std::as_writable_bytes(std::span(buffer_)));
  }
  HttpRequest Last() { return http_->requests().back(); }

  const Context ctx_ = Context::Background();
  paddleop::testing::ManualClock clock_;  // 2023-11-14T22:13:20Z
  FakeHttpClient* http_ = nullptr;
  std::unique_ptr<ObjectStore> store_;
  std::string buffer_ = std::string(100, '\0');
};

TEST_F(S3StoreTest, AddressesByPathOrByHost) {
  const auto ok = [](const HttpRequest&) { return Answer(200, "content"); };
  Open(ok);
  ASSERT_OK(Get("dir/a b+\xe5\x9b\xbe%"));
  EXPECT_EQ(Last().url, "http://127.0.0.1:9000/bkt/dir/a%20b%2B%E5%9B%BE%25");
  EXPECT_EQ(store_->name(), "s3://127.0.0.1:9000/bkt/");
  Open("https://bkt.s3.eu-west-1.amazonaws.com", {}, ok);
  ASSERT_OK(Get("k"));
  EXPECT_EQ(Last().url, "https://bkt.s3.eu-west-1.amazonaws.com/k");
  EXPECT_EQ(store_->name(), "s3://bkt/");
}

TEST_F(S3StoreTest, SignsUnlessAnonymous) {
  const auto ok = [](const HttpRequest&) { return Answer(200); };
  Open(ok);
  ASSERT_OK(Get("k"));
  EXPECT_THAT(
      Header(Last(), "Authorization"),
      AllOf(StartsWith("AWS4-HMAC-SHA256 Credential=AK/20231114/us-east-1/s3/aws4_request,"),
            HasSubstr("SignedHeaders=host;x-amz-content-sha256;x-amz-date,"),
            Not(HasSubstr("hidden"))));
  EXPECT_EQ(Header(Last(), "x-amz-date"), "20231114T221320Z");

  Open("http://h.example.com/bkt",
       {.access_key = "AK", .secret_key = Secret("hidden"), .session_token = Secret("tok")}, ok);
  ASSERT_OK(Get("k"));
  EXPECT_THAT(Header(Last(), "Authorization"), HasSubstr(";x-amz-security-token,"));
  EXPECT_EQ(Header(Last(), "x-amz-security-token"), "tok");

  Open("http://h.example.com/bkt", {}, ok);
  ASSERT_OK(Get("k"));
  EXPECT_EQ(Header(Last(), "Authorization"), "(none)");
  EXPECT_EQ(Header(Last(), "x-amz-date"), "(none)");
}

TEST_F(S3StoreTest, SignsContentOnlyWhenToldOrSmall) {
  const auto ok = [](const HttpRequest&) { return Answer(200); };
  Open(ok);
  ASSERT_OK(store_->Put(ctx_, "k", AsBytes("abc"), {.crc32c = 17, .storage_class = "COLD"}));
  EXPECT_EQ(Last().method, "PUT");
  EXPECT_EQ(Last().body, "abc");
  EXPECT_EQ(Last().body_size, 3u);
  EXPECT_EQ(Header(Last(), "x-amz-content-sha256"), "UNSIGNED-PAYLOAD");
  EXPECT_EQ(Header(Last(), "x-amz-meta-crc32c"), "17");
  EXPECT_THAT(Header(Last(), "Authorization"), HasSubstr("x-amz-meta-crc32c;x-amz-storage-class,"));
  Open("http://h.example.com/bkt", {.access_key = "AK", .secret_key = Secret("hidden")}, ok, true);
  ASSERT_OK(store_->Put(ctx_, "k", AsBytes("abc"), {}));
  EXPECT_EQ(Header(Last(), "x-amz-content-sha256"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(S3StoreTest, ReadsRangesAndMetadata) {
  Open([](const HttpRequest& request) {
    if (Header(request, "range") == "bytes=2-5") {
      return Answer(206, "2345", {{"Content-Range", "bytes 2-5/10"}, {"ETag", "\"e1\""}});
    }
    return Answer(200, "0123456789", {{"ETag", "\"e1\""}, {"X-Amz-Meta-Crc32c", "99"}});
  });
  auto got = Get("k", {.range = {2, 4}, .if_match = "e1"});
  ASSERT_OK(got);
  EXPECT_EQ(got->size, 4u);
  EXPECT_EQ(got->object_size, 10u);
  EXPECT_EQ(got->etag, "e1");
  EXPECT_EQ(buffer_.substr(0, 4), "2345");
  EXPECT_EQ(Header(Last(), "if-match"), "\"e1\"");
  got = Get("k");
  ASSERT_OK(got);
  EXPECT_EQ(got->size, 10u);
  EXPECT_EQ(got->crc32c, 99u);
  // A server that ignores the range is only harmless if the whole was wanted.
  EXPECT_CODE(Get("k", {.range = {3, 4}}), Code::kNotSupported);
  EXPECT_OK(Get("k", {.range = {0, 10}}));
  const std::size_t before = http_->requests().size();
  EXPECT_OK(Get("k", {.range = {3, 0}}));
  EXPECT_EQ(http_->requests().size(), before);
}

TEST_F(S3StoreTest, ARangeBehindTheEndIsEmptyAndAWrongOneIsCorrupt) {
  Open([](const HttpRequest&) {
    return Answer(416, "<Error><Code>InvalidRange</Code></Error>",
                  {{"Content-Range", "bytes */10"}});
  });
  auto got = Get("k", {.range = {10, 4}});
  ASSERT_OK(got);
  EXPECT_EQ(got->size, 0u);
  EXPECT_EQ(got->object_size, 10u);
  Open([](const HttpRequest&) { return Answer(206, "0123", {{"Content-Range", "bytes 0-3/10"}}); });
  EXPECT_CODE(Get("k", {.range = {2, 4}}), Code::kCorrupt);
  Open([](const HttpRequest&) { return Answer(206, "0123"); });
  EXPECT_CODE(Get("k", {.range = {2, 4}}), Code::kCorrupt);
}

TEST_F(S3StoreTest, ErrorsHaveTheRightCodeAndNameBucketAndKey) {
  const std::vector<std::tuple<int, const char*, Code>> cases = {
      {404, "NoSuchKey", Code::kNotFound},
      {404, "NoSuchBucket", Code::kInvalid},
      {403, "AccessDenied", Code::kPermission},
      {403, "SignatureDoesNotMatch", Code::kPermission},
      {403, "InvalidAccessKeyId", Code::kPermission},
      {400, "ExpiredToken", Code::kPermission},
      {403, "SomethingNew", Code::kPermission},
      {503, "SlowDown", Code::kUnavailable},
      {500, "InternalError", Code::kUnavailable},
      {429, "TooManyRequests", Code::kUnavailable},
      {400, "RequestTimeout", Code::kUnavailable},
      {409, "OperationAborted", Code::kUnavailable},
      {412, "PreconditionFailed", Code::kConflict},
      {501, "NotImplemented", Code::kNotSupported},
      {507, "XMinioStorageFull", Code::kNoSpace},
      {400, "EntityTooLarge", Code::kInvalid},
  };
  for (const auto& [status, code, expected] : cases) {
    Open([&, answer = ErrorAnswer(status, code)](const HttpRequest&) { return answer; });
    auto got = Get("some/key");
    ASSERT_CODE(got, expected) << code;
    EXPECT_THAT(got.error().message(), AllOf(HasSubstr("bkt"), HasSubstr("some/key"),
                                             HasSubstr(code), Not(HasSubstr("hidden"))));
  }
  Open([](const HttpRequest&) { return ErrorAnswer(404, "NoSuchBucket"); });
  EXPECT_THAT(Get("k").error().message(),
              HasSubstr("there is no bucket bkt at http://127.0.0.1:9000"));
  EXPECT_CODE(store_->Delete(ctx_, "k"), Code::kInvalid);
}

TEST_F(S3StoreTest, AnAnswerThatIsNotS3IsSaidToBe) {
  Open([](const HttpRequest&) { return Answer(404, "<html>Not here</html>"); });
  auto got = Get("k");
  ASSERT_CODE(got, Code::kInvalid);
  EXPECT_THAT(got.error().message(), HasSubstr("is http://127.0.0.1:9000 really its endpoint?"));
  EXPECT_CODE(store_->Head(ctx_, "k"), Code::kNotFound);  // has no body to tell from
  Open([](const HttpRequest&) { return Answer(502, "bad gateway"); });
  EXPECT_CODE(Get("k"), Code::kUnavailable);
  Open([](const HttpRequest&) { return Answer(200, "<html/>"); });
  auto listed = ListEntries(*store_, ctx_, {});
  ASSERT_CODE(listed, Code::kCorrupt);
  EXPECT_THAT(listed.error().message(), HasSubstr("list s3://127.0.0.1:9000/bkt/"));
}

TEST_F(S3StoreTest, TransportErrorsKeepTheirCodeAndNameTheKey) {
  Open([](const HttpRequest&) -> Result<HttpResponse> {
    return Fail(Code::kUnavailable, "refused");
  });
  auto put = PutString(*store_, ctx_, "k", "x");
  ASSERT_CODE(put, Code::kUnavailable);
  EXPECT_EQ(put.error().message(), "put s3://127.0.0.1:9000/bkt/k: refused");
}

TEST_F(S3StoreTest, CorrectsTheRegionOnce) {
  Open("mybucket", {.access_key = "AK", .secret_key = Secret("s")}, [](const HttpRequest& request) {
    if (Header(request, "Authorization").find("/eu-west-3/") != std::string::npos)
      return Answer(200, "x");
    return ErrorAnswer(301, "PermanentRedirect", {{"x-amz-bucket-region", "eu-west-3"}});
  });
  ASSERT_OK(Get("k"));
  EXPECT_EQ(Last().url, "https://mybucket.s3.eu-west-3.amazonaws.com/k");
  ASSERT_OK(Get("k"));
  EXPECT_EQ(http_->requests().size(), 3u);

  Open([](const HttpRequest& request) {
    if (Header(request, "Authorization").find("/r2/") != std::string::npos) return Answer(200, "x");
    return Answer(400,
                  "<Error><Code>AuthorizationHeaderMalformed</Code><Region>r2</Region></Error>");
  });
  Result<GetResult> got = GetResult{};
  store_->StartGet(ctx_, "k", {}, std::as_writable_bytes(std::span(buffer_)),
                   [&](auto r) { got = std::move(r); });
  ASSERT_OK(got);
  EXPECT_EQ(got->size, 1u);

  Open([](const HttpRequest&) {
    return ErrorAnswer(301, "PermanentRedirect", {{"x-amz-bucket-region", "r2"}});
  });
  EXPECT_CODE(Get("k"), Code::kInvalid);
  EXPECT_EQ(http_->requests().size(), 2u);
}

TEST_F(S3StoreTest, CorrectsItsClock) {
  Open([](const HttpRequest& request) {
    if (Header(request, "x-amz-date") == "20231114T231321Z") return Answer(200);
    return ErrorAnswer(403, "RequestTimeTooSkewed", {{"Date", "Tue, 14 Nov 2023 23:13:21 GMT"}});
  });
  EXPECT_OK(PutString(*store_, ctx_, "k", "x"));
  EXPECT_OK(PutString(*store_, ctx_, "k", "x"));
  EXPECT_EQ(http_->requests().size(), 3u);
  // If that does not help it is an error.
  Open([](const HttpRequest&) {
    return ErrorAnswer(403, "RequestTimeTooSkewed", {{"Date", "Tue, 14 Nov 2023 23:13:21 GMT"}});
  });
  EXPECT_CODE(PutString(*store_, ctx_, "k", "x"), Code::kPermission);
  EXPECT_EQ(http_->requests().size(), 2u);
}

TEST_F(S3StoreTest, RemembersRetryAfter) {
  Open([](const HttpRequest&) { return ErrorAnswer(503, "SlowDown", {{"Retry-After", "7"}}); });
  EXPECT_EQ(store_->RetryAfter(), seconds(0));
  EXPECT_CODE(Get("k"), Code::kUnavailable);
  EXPECT_EQ(store_->RetryAfter(), seconds(7));
  clock_.Advance(seconds(3));
  EXPECT_EQ(store_->RetryAfter(), seconds(4));
  clock_.Advance(seconds(30));
  EXPECT_EQ(store_->RetryAfter(), seconds(0));
  Open(
      [](const HttpRequest&) { return ErrorAnswer(503, "SlowDown", {{"Retry-After", "999999"}}); });
  EXPECT_CODE(Get("k"), Code::kUnavailable);
  EXPECT_EQ(store_->RetryAfter(), seconds(300));
}

std::string Page(const std::vector<std::string>& keys, std::string_view token) {
  std::string body = fmt::format(
      "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{}</"
      "IsTruncated><NextContinuationToken>{}"
      "</NextContinuationToken>",
      !token.empty(), token);
  for (const auto& key : keys) {
    body += fmt::format(
        "<Contents><Key>{}</Key><LastModified>2024-05-06T07:08:09Z</LastModified><Size>1</Size></"
        "Contents>",
        key);
  }
  return body + "</ListBucketResult>";
}

TEST_F(S3StoreTest, ListsPageByPage) {
  Open([](const HttpRequest& request) {
    if (request.url.find("continuation-token=t%2F1") != std::string::npos)
      return Answer(200, Page({"c", "d"}, ""));
    return Answer(200, Page({"a", "b"}, "t/1"));
  });
  auto entries = ListEntries(*store_, ctx_, {.prefix = "x/", .start_after = "A"});
  ASSERT_OK(entries);
  ASSERT_EQ(entries->size(), 4u);
  EXPECT_EQ(entries->back().key, "d");
  const auto requests = http_->requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].url,
            "http://127.0.0.1:9000/"
            "bkt?encoding-type=url&list-type=2&max-keys=1000&prefix=x%2F&start-after=A");
  EXPECT_THAT(requests[1].url, Not(HasSubstr("start-after")));
  // No more pages than the limit needs.
  entries = ListEntries(*store_, ctx_, {.limit = 2});
  ASSERT_OK(entries);
  EXPECT_EQ(http_->requests().size(), 3u);
  EXPECT_THAT(Last().url, HasSubstr("max-keys=2"));
}

TEST_F(S3StoreTest, AListingThatDoesNotAdvanceEnds) {
  Open([](const HttpRequest&) { return Answer(200, Page({}, "same")); });
  EXPECT_CODE(ListEntries(*store_, ctx_, {}), Code::kCorrupt);
}

TEST_F(S3StoreTest, DeletesAThousandAtATime) {
  Open([](const HttpRequest& request) {
    if (request.method == "DELETE") return Answer(204);
    if (request.body.find("<Key>k1500</Key>") != std::string::npos) {
      return Answer(200,
                    "<DeleteResult><Error><Key>k1500</Key><Code>AccessDenied</Code></"
                    "Error><Error><Key>k1501</Key>"
                    "<Code>NoSuchKey</Code></Error></DeleteResult>");
    }
    return Answer(200, "<DeleteResult></DeleteResult>");
  });
  std::vector<std::string> keys;
  for (int i = 0; i < 2100; ++i) keys.push_back(fmt::format("k{}", i));
  keys.emplace_back("control\x01");
  auto failed = store_->DeleteMany(ctx_, keys);
  ASSERT_OK(failed);
  ASSERT_EQ(failed->size(), 1u);
  EXPECT_EQ(failed->at(0).key, "k1500");
  EXPECT_EQ(failed->at(0).error.code(), Code::kPermission);
  const auto requests = http_->requests();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[0].url, "http://127.0.0.1:9000/bkt?delete=");
  EXPECT_NE(Header(requests[0], "content-md5"), "(none)");
  EXPECT_EQ(requests[3].url, "http://127.0.0.1:9000/bkt/control%01");
}

TEST_F(S3StoreTest, DeletesOneByOneWhereTheServerKnowsNoOtherWay) {
  Open([](const HttpRequest& request) {
    return request.method == "DELETE" ? Answer(204) : ErrorAnswer(501, "NotImplemented");
  });
  const std::vector<std::string> keys = {"a", "b"};
  auto failed = store_->DeleteMany(ctx_, keys);
  ASSERT_OK(failed);
  EXPECT_TRUE(failed->empty());
  EXPECT_EQ(http_->requests().size(), 3u);
}

TEST_F(S3StoreTest, ASuccessWithAnErrorInsideIsNone) {
  Open([](const HttpRequest&) { return ErrorAnswer(200, "InternalError"); });
  EXPECT_CODE(store_->CompleteUpload(ctx_, "k", "u", std::vector{UploadedPart{1, "e", 1}}),
              Code::kUnavailable);
  EXPECT_CODE(store_->Copy(ctx_, "a b", "c"), Code::kUnavailable);
  EXPECT_EQ(Header(Last(), "x-amz-copy-source"), "/bkt/a%20b");
}

TEST_F(S3StoreTest, CreatesAMissingBucketInItsRegion) {
  Open("https://h.example.com/bkt?region=r9", {.access_key = "AK", .secret_key = Secret("s")},
       [](const HttpRequest& request) { return Answer(request.method == "HEAD" ? 404 : 200); });
  ASSERT_OK(store_->Create(ctx_));
  EXPECT_EQ(Last().method, "PUT");
  EXPECT_THAT(Last().body, HasSubstr("<LocationConstraint>r9</LocationConstraint>"));
  Open([](const HttpRequest&) { return Answer(403); });
  EXPECT_CODE(store_->Create(ctx_), Code::kPermission);
}

TEST_F(S3StoreTest, NoCallMeansTheBucketByAccident) {
  Open([](const HttpRequest&) { return Answer(200); });
  EXPECT_CODE(store_->Delete(ctx_, ""), Code::kInvalid);
  EXPECT_CODE(Get(""), Code::kInvalid);
  EXPECT_CODE(store_->Copy(ctx_, "a", ""), Code::kInvalid);
  EXPECT_CODE(store_->AbortUpload(ctx_, "", "u"), Code::kInvalid);
  Result<void> deleted;
  store_->StartDelete(ctx_, "", [&](auto r) { deleted = std::move(r); });
  EXPECT_CODE(deleted, Code::kInvalid);
  EXPECT_TRUE(http_->requests().empty());
}

}  // namespace
}  // namespace paddleop::volume::object::testing
