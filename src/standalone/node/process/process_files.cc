#include "standalone/node/process/process_files.h"

#include <nlohmann/json.hpp>

#include "api/meta/time.h"
#include "base/posix.h"

namespace paddleop::standalone::node {
namespace {

using Json = nlohmann::json;

Result<void> WriteJson(const std::string& path, const Json& json) {
  return WriteFileAtomic(path, json.dump(-1, ' ', false, Json::error_handler_t::replace), 0640);
}

Json ReadJson(const std::string& path) {
  const auto text = ReadFile(path, 1 << 20);
  return text ? Json::parse(*text, nullptr, false) : Json(Json::value_t::discarded);
}

WallTime TimeOf(const Json& json, const char* key) {
  const auto time = api::ParseMicroTime(json.value(key, ""));
  return time ? *time : WallTime{};
}

}  // namespace

Result<void> WriteState(const std::string& directory, ProcessState state) {
  state.shim = ProcessIdentity::Of(state.shim.pid);
  state.started = std::chrono::system_clock::now();
  return WriteJson(directory + "/state.json", {{"shim", state.shim.pid},
                                               {"first", state.first},
                                               {"ticks", state.shim.start_ticks},
                                               {"started", api::FormatMicroTime(state.started)}});
}

Result<void> WriteExit(const std::string& directory, const ProcessExit& exit) {
  return WriteJson(directory + "/exit.json", {{"code", exit.code},
                                              {"finished", api::FormatMicroTime(exit.finished)},
                                              {"startFailed", exit.start_failed},
                                              {"message", exit.message}});
}

std::optional<ProcessState> ReadState(const std::string& directory) {
  const Json json = ReadJson(directory + "/state.json");
  if (!json.is_object()) return std::nullopt;
  return ProcessState{
      .shim = {.pid = json.value("shim", -1), .start_ticks = json.value("ticks", std::uint64_t{0})},
      .first = json.value("first", -1),
      .started = TimeOf(json, "started")};
}

std::optional<ProcessExit> ReadExit(const std::string& directory) {
  const Json json = ReadJson(directory + "/exit.json");
  if (!json.is_object()) return std::nullopt;
  return ProcessExit{.code = json.value("code", 0),
                     .finished = TimeOf(json, "finished"),
                     .start_failed = json.value("startFailed", false),
                     .message = json.value("message", "")};
}

}  // namespace paddleop::standalone::node
