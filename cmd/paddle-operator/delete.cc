#include <iostream>
#include <nlohmann/json.hpp>

#include "api_client.h"
#include "base/clock.h"

namespace paddleop::cmd {
namespace {

using api::Json;

struct Target {
  ApiResource resource;
  std::string ns;
  std::string name;
};

Result<std::vector<Target>> Targets(const Context& ctx, ApiClient& client,
                                    const ClientFlags& flags) {
  std::vector<Target> out;
  ASSIGN_OR_RETURN(const auto objects, ReadManifests(flags.files));
  for (const Json& object : objects) {
    Target target;
    ASSIGN_OR_RETURN(target.resource, client.FindKind(ctx, object["apiVersion"], object["kind"]));
    const Json metadata = object.value("metadata", Json::object());
    target.name = metadata.value("name", "");
    target.ns = metadata.value("namespace", client.ns());
    out.push_back(std::move(target));
  }
  if (flags.words.empty()) return out;
  std::string type = flags.words[0];
  std::vector<std::string> names(flags.words.begin() + 1, flags.words.end());
  if (const auto slash = type.find('/'); slash != std::string::npos) {
    names.insert(names.begin(), type.substr(slash + 1));
    type.resize(slash);
  }
  ASSIGN_OR_RETURN(const ApiResource resource, client.Find(ctx, type));
  for (const std::string& name : names) out.push_back({resource, client.ns(), name});
  return out;
}

// Until the object is gone, or another one of the same name is there.
Result<void> WaitGone(const Context& ctx, ApiClient& client, const std::string& path,
                      const std::string& uid) {
  while (true) {
    const auto now = client.DoJson(ctx, {.target = path});
    if (!now && IsNotFound(now.error())) return {};
    if (!now) return std::unexpected(now.error());
    if (now->at("metadata").value("uid", "") != uid) return {};
    if (!Clock::System().SleepFor(ctx, std::chrono::milliseconds(200))) return ctx.Check();
  }
}

Result<void> DeleteOne(const Context& ctx, ApiClient& client, const Target& target, bool wait) {
  if (target.name.empty()) {
    return Fail(Code::kInvalid, "name the {} to delete", target.resource.kind);
  }
  const std::string path = ApiClient::Path(target.resource, target.ns, target.name);
  ASSIGN_OR_RETURN(const Json before, client.DoJson(ctx, {.target = path}));
  RETURN_IF_ERROR(client.Do(ctx, {.method = "DELETE",
                                  .target = path,
                                  .body = R"({"kind":"DeleteOptions","apiVersion":"v1",)"
                                          R"("propagationPolicy":"Background"})"}));
  std::cout << target.resource.Label() << " \"" << target.name << "\" deleted\n" << std::flush;
  if (!wait) return {};
  return WaitGone(ctx, client, path, before.at("metadata").value("uid", ""));
}

}  // namespace

int RunDelete(const ClientFlags& flags) {
  const Context ctx = Context::Background();
  if (flags.files.empty() && flags.words.size() < 2 &&
      (flags.words.empty() || flags.words[0].find('/') == std::string::npos)) {
    return ClientFailed("delete",
                        Status(Code::kInvalid, "say what to delete: RESOURCE NAME, or -f FILE"));
  }
  auto client = ApiClient::Connect(flags);
  if (!client) return ClientFailed("delete", client.error());
  auto targets = Targets(ctx, **client, flags);
  if (!targets) return ClientFailed("delete", targets.error());
  int code = 0;
  for (const Target& target : *targets) {
    const auto done = DeleteOne(ctx, **client, target, !flags.no_wait);
    if (!done) code = ClientFailed("delete", done.error());
  }
  return code;
}

}  // namespace paddleop::cmd
