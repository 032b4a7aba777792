// Paths, queries and bodies.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "standalone/apiserver/internal/request_body.h"
#include "standalone/apiserver/list_query.h"
#include "standalone/apiserver/resource_path.h"

namespace paddleop::standalone::apiserver {
namespace {

std::string Named(const char* path) {
  const auto parsed = ParseResourcePath(path);
  if (!parsed) return "-";
  return fmt::format("{} {} {} {}", parsed->kind->type.plural, parsed->ns, parsed->name,
                     parsed->subresource);
}

TEST(ResourcePathTest, NamesKindsNamespacesAndNames) {
  EXPECT_EQ(Named("/api/v1/pods"), "pods   ");
  EXPECT_EQ(Named("/api/v1/namespaces/n/pods"), "pods n  ");
  EXPECT_EQ(Named("/api/v1/namespaces/n/pods/p"), "pods n p ");
  EXPECT_EQ(Named("/api/v1/namespaces/n/pods/p/log"), "pods n p log");
  EXPECT_EQ(Named("/api/v1/namespaces"), "namespaces   ");
  EXPECT_EQ(Named("/api/v1/namespaces/n"), "namespaces  n ");
  EXPECT_EQ(Named("/api/v1/namespaces/n/status"), "namespaces  n status");
  EXPECT_EQ(Named("/api/v1/nodes/n/status"), "nodes  n status");
  EXPECT_EQ(Named("/apis/batch.paddlepaddle.org/v1/namespaces/n/paddlejobs/j"), "paddlejobs n j ");
  for (const char* path : {"/api", "/api/v1", "/api/v2/pods", "/apis/apps/v1", "/api/v1/pods/p",
                           "/api/v1/namespaces/n/nodes", "/api/v1/namespaces/n/pods/p/log/x",
                           "/apis/apps/v1/namespaces/n/deployments", "/"}) {
    EXPECT_EQ(Named(path), "-") << path;
  }
}

net::ServerRequest Request(std::string query, std::string body = "") {
  net::ServerRequest request;
  request.query = std::move(query);
  request.body = std::move(body);
  return request;
}

TEST(ListQueryTest, FieldsThatCannotBeSelectedAreNamed) {
  const auto bad = ReadListQuery(Request("fieldSelector=spec.image%3Dx"), CoreKind("Pod"), "");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, 400);
  EXPECT_EQ(bad.error().message, "field label not supported: spec.image");
  EXPECT_TRUE(ReadListQuery(Request("fieldSelector=spec.nodeName%3Dx,status.phase!%3DFailed"),
                            CoreKind("Pod"), ""));
  EXPECT_FALSE(ReadListQuery(Request("limit=x"), CoreKind("Pod"), ""));
  EXPECT_FALSE(ReadListQuery(Request("labelSelector=%28"), CoreKind("Pod"), ""));
}

TEST(PagesTest, GoOnFromTheFirstPagesState) {
  std::vector<ObjectPtr> objects;
  for (int i = 0; i < 5; ++i) {
    objects.push_back(
        MakeObject(CoreKind("ConfigMap"), {{"metadata", {{"name", std::to_string(i)}}}}, 1));
  }
  Pages pages;
  const auto first = pages.First(objects, 7, 2);
  EXPECT_EQ(first.objects.size(), 2u);
  EXPECT_EQ(first.remaining, 3u);
  const auto second = pages.Next(first.continue_token, 2);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->objects[0]->name, "2");
  const auto last = pages.Next(second->continue_token, 2);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->revision, 7u);
  EXPECT_TRUE(last->continue_token.empty());
  EXPECT_EQ(pages.Next("AAAA", 2).error().code, 400);
  for (int i = 0; i < 100; ++i) pages.First(objects, 8, 2);
  EXPECT_EQ(pages.Next(first.continue_token, 2).error().code, 410);
}

TEST(RequestBodyTest, SaysWhatIsWrong) {
  EXPECT_EQ(ReadBody(Request("", "{")).error().code, 400);
  EXPECT_EQ(ReadBody(Request("", "[]")).error().code, 400);
  EXPECT_EQ(ReadBody(Request("", std::string(5000, '['))).error().code, 400);
  const auto twice = ReadBody(Request("", R"({"a":1,"b":{"c":1,"c":2}})"));
  ASSERT_TRUE(twice);
  EXPECT_THAT(twice->duplicates, ::testing::ElementsAre("b.c"));
  const Kind& pods = CoreKind("Pod");
  const auto read = [&](const char* body) {
    const auto out = ReadObject(Request("", body), pods, "n", "p");
    return out ? "" : out.error().message;
  };
  EXPECT_EQ(read(R"({"metadata":{"name":"p"}})"), "");
  EXPECT_THAT(read(R"({"apiVersion":"v2","kind":"Pod","metadata":{"name":"p"}})"),
              ::testing::HasSubstr("API version"));
  EXPECT_THAT(read(R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"p"}})"),
              ::testing::HasSubstr("kind"));
  EXPECT_THAT(read(R"({"metadata":{"name":"p","namespace":"m"}})"),
              ::testing::HasSubstr("namespace"));
  EXPECT_THAT(read(R"({"metadata":{"name":"q"}})"), ::testing::HasSubstr("name"));
}

TEST(RequestBodyTest, ProtobufOfTheKindsThatKubectlSends) {
  const auto part = [](char number, const std::string& bytes) {
    return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) +
           bytes;
  };
  const auto envelope = [&](const std::string& kind, const std::string& raw) {
    net::ServerRequest request;
    request.headers.Set("Content-Type", "application/vnd.kubernetes.protobuf");
    request.body = std::string("k8s\0", 4) + part(1, part(1, "v1") + part(2, kind)) + part(2, raw);
    return request;
  };
  const std::string entry = part(1, "x") + part(2, "1");
  const auto map = ReadBody(envelope("ConfigMap", part(1, part(1, "a")) + part(2, entry)));
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_EQ(
      map->json,
      api::Json::parse(
          R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1"}})"));
  const auto secret = ReadBody(envelope("Secret", part(2, entry) + part(3, "Opaque")));
  ASSERT_TRUE(secret);
  EXPECT_EQ(secret->json["data"]["x"], "MQ==");
  EXPECT_EQ(ReadBody(envelope("Pod", "")).error().code, 415);
  auto cut = envelope("ConfigMap", part(1, part(1, "a")));
  cut.body.pop_back();
  EXPECT_EQ(ReadBody(cut).error().code, 400);
}

TEST(DeleteRequestTest, BodyAndQuery) {
  const auto read = ReadDeleteRequest(Request(
      "gracePeriodSeconds=3", R"({"propagationPolicy":"Foreground","preconditions":{"uid":"u"}})"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->grace_seconds, 3);
  EXPECT_EQ(read->uid, "u");
  EXPECT_EQ(read->propagation, kube::Propagation::kForeground);
  EXPECT_FALSE(ReadDeleteRequest(Request("propagationPolicy=Sideways")));
  EXPECT_FALSE(ReadDeleteRequest(Request("gracePeriodSeconds=x")));
}

}  // namespace
}  // namespace paddleop::standalone::apiserver
