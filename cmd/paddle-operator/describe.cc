#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "api_client.h"
#include "base/crypto.h"
#include "print_table.h"

namespace paddleop::cmd {
namespace {

using api::Json;

constexpr char kTableOnly[] = "application/json;as=Table;v=v1;g=meta.k8s.io";

// The object without what only programs read.
Json ForPeople(Json object) {
  Json& metadata = object["metadata"];
  metadata.erase("managedFields");
  if (metadata.contains("annotations")) {
    metadata["annotations"].erase("kubectl.kubernetes.io/last-applied-configuration");
    if (metadata["annotations"].empty()) metadata.erase("annotations");
  }
  if (object.value("kind", "") == "Secret" && object.contains("data")) {
    for (auto& [name, value] : object["data"].items()) {
      value = fmt::format("{} bytes of base64",
                          value.is_string() ? value.get<std::string>().size() : 0);
    }
  }
  return object;
}

Result<void> Describe(const ClientFlags& flags) {
  const Context ctx = Context::Background();
  ASSIGN_OR_RETURN(auto client, ApiClient::Connect(flags));
  ASSIGN_OR_RETURN(const ApiResource resource, client->Find(ctx, flags.words[0]));
  std::vector<std::string> names(flags.words.begin() + 1, flags.words.end());
  if (names.empty()) {
    ASSIGN_OR_RETURN(const Json list,
                     client->DoJson(ctx, {.target = ApiClient::Path(resource, client->ns(), "")}));
    for (const Json& item : list.at("items"))
      names.push_back(item.at("metadata").value("name", ""));
  }
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(
        const Json object,
        client->DoJson(ctx, {.target = ApiClient::Path(resource, client->ns(), name)}));
    std::cout << api::ToYaml(ForPeople(object)) << "Events:\n";
    const std::string about = fmt::format("involvedObject.name={},involvedObject.uid={}", name,
                                          object.at("metadata").value("uid", ""));
    const std::string ns = resource.namespaced ? client->ns() : "default";
    ASSIGN_OR_RETURN(
        const Json events,
        client->DoJson(ctx, {.target = fmt::format("/api/v1/namespaces/{}/events?fieldSelector={}",
                                                   UrlEncode(ns), UrlEncode(about)),
                             .accept = kTableOnly}));
    TableStyle style;
    std::cout << (events.value("rows", Json::array()).empty() ? "  <none>\n"
                                                              : PrintTable(events, style))
              << std::flush;
  }
  return {};
}

}  // namespace

int RunDescribe(const ClientFlags& flags) {
  const auto done = Describe(flags);
  return done ? 0 : ClientFailed("describe", done.error());
}

}  // namespace paddleop::cmd
