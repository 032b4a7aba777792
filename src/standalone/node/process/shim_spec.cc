#include "standalone/node/process/shim_spec.h"

#include <nlohmann/json.hpp>

namespace paddleop::standalone::node {
namespace {

using Json = nlohmann::json;

template <class T, class Fill>
Result<T> ReadText(std::string_view text, const Fill& fill) {
  try {
    T out;
    fill(Json::parse(text), out);
    return out;
  } catch (const Json::exception& e) {
    return Fail(Code::kInvalid, "specification of a process: {}", e.what());
  }
}

Json MountsJson(const std::vector<BindMount>& mounts) {
  Json out = Json::array();
  for (const BindMount& mount : mounts)
    out.push_back({mount.source, mount.target, mount.read_only});
  return out;
}

std::vector<BindMount> MountsFrom(const Json& json) {
  std::vector<BindMount> out;
  for (const Json& mount : json) {
    out.push_back(
        {mount.at(0).get<std::string>(), mount.at(1).get<std::string>(), mount.at(2).get<bool>()});
  }
  return out;
}

}  // namespace

std::string ToText(const ShimSpec& spec) {
  Json env = Json::array();
  for (const auto& [name, value] : spec.env) env.push_back({name, value});
  const Json json = {{"argv", spec.argv},
                     {"env", std::move(env)},
                     {"cwd", spec.cwd},
                     {"directory", spec.directory},
                     {"logLimit", spec.log_limit},
                     {"namespaces", spec.namespaces},
                     {"network", spec.network},
                     {"hostname", spec.hostname},
                     {"hosts", spec.hosts_file},
                     {"mounts", MountsJson(spec.mounts)},
                     {"dataDir", spec.data_dir},
                     {"stage", spec.stage}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<ShimSpec> ShimSpecFromText(std::string_view text) {
  return ReadText<ShimSpec>(text, [](const Json& json, ShimSpec& out) {
    json.at("argv").get_to(out.argv);
    for (const Json& pair : json.at("env")) {
      out.env.emplace_back(pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
    }
    json.at("cwd").get_to(out.cwd);
    json.at("directory").get_to(out.directory);
    json.at("logLimit").get_to(out.log_limit);
    json.at("namespaces").get_to(out.namespaces);
    json.at("network").get_to(out.network);
    json.at("hostname").get_to(out.hostname);
    json.at("hosts").get_to(out.hosts_file);
    out.mounts = MountsFrom(json.at("mounts"));
    json.at("dataDir").get_to(out.data_dir);
    json.at("stage").get_to(out.stage);
  });
}

std::string ToText(const RemountSpec& spec) {
  const Json json = {{"pid", spec.pid}, {"mounts", MountsJson(spec.mounts)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<RemountSpec> RemountSpecFromText(std::string_view text) {
  return ReadText<RemountSpec>(text, [](const Json& json, RemountSpec& out) {
    json.at("pid").get_to(out.pid);
    out.mounts = MountsFrom(json.at("mounts"));
  });
}

std::string ToText(const ExecSpec& spec) {
  const Json json = {
      {"pid", spec.pid}, {"namespaces", spec.namespaces}, {"tty", spec.tty}, {"argv", spec.argv}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<ExecSpec> ExecSpecFromText(std::string_view text) {
  return ReadText<ExecSpec>(text, [](const Json& json, ExecSpec& out) {
    json.at("pid").get_to(out.pid);
    json.at("namespaces").get_to(out.namespaces);
    json.at("tty").get_to(out.tty);
    json.at("argv").get_to(out.argv);
  });
}

}  // namespace paddleop::standalone::node
