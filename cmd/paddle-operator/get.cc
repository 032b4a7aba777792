#include <iostream>
#include <nlohmann/json.hpp>

#include "api_client.h"
#include "base/crypto.h"
#include "kube/wire/watch_event.h"
#include "print_table.h"

namespace paddleop::cmd {
namespace {

using api::Json;

constexpr char kTable[] = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

struct Query {
  ApiResource resource;
  std::string ns;
  std::string name;
  std::string selector;

  std::string Target(const std::string& more = "") const {
    std::string query = selector.empty() ? "" : "labelSelector=" + UrlEncode(selector);
    if (!more.empty()) query += (query.empty() ? "" : "&") + more;
    return ApiClient::Path(resource, ns, name) + (query.empty() ? "" : "?" + query);
  }
};

void PrintName(const ApiResource& resource, const Json& object) {
  std::cout << resource.Label() << "/" << object.at("metadata").value("name", "") << "\n";
}

Result<void> PrintObjects(const Context& ctx, ApiClient& client, const Query& query,
                          const std::string& output) {
  ASSIGN_OR_RETURN(const Json answer, client.DoJson(ctx, {.target = query.Target()}));
  if (output == "json") {
    std::cout << answer.dump(4) << "\n";
  } else if (output == "yaml") {
    std::cout << api::ToYaml(answer);
  } else if (answer.contains("items")) {
    for (const Json& item : answer["items"]) PrintName(query.resource, item);
  } else {
    PrintName(query.resource, answer);
  }
  return {};
}

// Prints the table; then, if asked to, a line for each change.
Result<void> PrintRows(const Context& ctx, ApiClient& client, const Query& query,
                       const ClientFlags& flags) {
  TableStyle style{.wide = flags.output == "wide", .with_namespace = flags.all_namespaces};
  style.with_namespace = style.with_namespace && query.resource.namespaced;
  ASSIGN_OR_RETURN(const Json table,
                   client.DoJson(ctx, {.target = query.Target(), .accept = kTable}));
  if (table.value("rows", Json::array()).empty() && !flags.watch) {
    const bool scoped = query.resource.namespaced && !flags.all_namespaces;
    std::cerr << "No resources found" << (scoped ? " in " + query.ns + " namespace." : "") << "\n";
    return {};
  }
  std::cout << PrintTable(table, style) << std::flush;
  if (!flags.watch) return {};
  style.headers = false;
  Query all = query;
  all.name.clear();
  const std::string version = table.at("metadata").value("resourceVersion", "");
  std::string more = "watch=true&resourceVersion=" + version;
  if (!query.name.empty()) more += "&fieldSelector=" + UrlEncode("metadata.name=" + query.name);
  kube::LineSplitter lines;
  return client.Stream(
      ctx, {.target = all.Target(more), .accept = kTable}, [&](std::string_view piece) {
        return lines.Feed(piece, [&](std::string_view line) -> Result<void> {
          ASSIGN_OR_RETURN(const Json event, api::ParseJson(line));
          const std::string type = event.value("type", "");
          if (type == "ERROR") {
            return Fail(Code::kExpired, "{}",
                        event.at("object").value("message", "the watch has ended"));
          }
          if (type != "BOOKMARK") std::cout << PrintTable(event.at("object"), style) << std::flush;
          return {};
        });
      });
}

Result<void> Get(const ClientFlags& flags) {
  const Context ctx = Context::Background();
  ASSIGN_OR_RETURN(auto client, ApiClient::Connect(flags));
  std::vector<std::string> names(flags.words.begin() + 1, flags.words.end());
  std::string type = flags.words[0];
  if (const auto slash = type.find('/'); slash != std::string::npos) {
    names.insert(names.begin(), type.substr(slash + 1));
    type.resize(slash);
  }
  Query query;
  ASSIGN_OR_RETURN(query.resource, client->Find(ctx, type));
  query.ns = flags.all_namespaces ? "" : client->ns();
  query.selector = flags.selector;
  if (names.empty()) names.emplace_back();
  for (const std::string& name : names) {
    query.name = name;
    const bool rows = flags.output.empty() || flags.output == "wide";
    RETURN_IF_ERROR(rows ? PrintRows(ctx, *client, query, flags)
                         : PrintObjects(ctx, *client, query, flags.output));
  }
  return {};
}

}  // namespace

int RunGet(const ClientFlags& flags) {
  const auto done = Get(flags);
  return done ? 0 : ClientFailed("get", done.error());
}

}  // namespace paddleop::cmd
