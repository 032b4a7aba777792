#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "fuse/control.h"
#include "samplefs/tool.h"

namespace paddleop::cmd {
namespace {

using nlohmann::json;

std::uint64_t Number(const json& object, const char* key) {
  return object.value(key, std::uint64_t{0});
}

void PrintCache(const Tool& tool, const json& cache) {
  for (const json& directory : cache["directories"]) {
    tool.Print(fmt::format(
        "cache        {}: {} in {} blocks of {}{}{}", directory.value("path", ""),
        FormatSize(Number(directory, "bytes")), FormatCount(Number(directory, "blocks")),
        FormatSize(Number(directory, "capacity")),
        Number(directory, "pinnedBytes") > 0
            ? ", pinned " + FormatSize(Number(directory, "pinnedBytes"))
            : "",
        directory.value("problem", "").empty() ? "" : "; " + directory.value("problem", "")));
  }
  const std::uint64_t hits = Number(cache, "hits"), misses = Number(cache, "misses");
  if (hits + misses == 0) return;
  tool.Print(fmt::format("hits         {:.1f} % of {} reads ({} from the cache, {} past it)",
                         100.0 * static_cast<double>(hits) / static_cast<double>(hits + misses),
                         FormatCount(hits + misses), FormatSize(Number(cache, "hitBytes")),
                         FormatSize(Number(cache, "missBytes"))));
}

void PrintText(const Tool& tool, const json& status) {
  tool.Print(fmt::format("mount        {} ({} mode, process {})", status.value("mountPoint", ""),
                         status.value("mode", ""), Number(status, "pid")));
  tool.Print(
      fmt::format("volume       {} ({})", status.value("volume", ""), status.value("uuid", "")));
  tool.Print(fmt::format("metadata     {}", status.value("metadata", "")));
  tool.Print(fmt::format(
      "requests     {} ({} failed), {} read, {} written", FormatCount(Number(status, "requests")),
      FormatCount(Number(status, "errors")), FormatSize(Number(status, "bytesRead")),
      FormatSize(Number(status, "bytesWritten"))));
  if (status.contains("dataSet")) {
    const json& data = status["dataSet"];
    const json& prefetch = data["prefetch"];
    tool.Print(fmt::format("data set     {} inodes in {} of memory, refreshed {} times",
                           FormatCount(Number(data, "inodes")),
                           FormatSize(Number(data, "treeBytes")), Number(data, "refreshes")));
    tool.Print(fmt::format(
        "prefetch     {} blocks: {} useful, {} wasted", FormatCount(Number(prefetch, "blocks")),
        FormatCount(Number(prefetch, "useful")), FormatCount(Number(prefetch, "wasted"))));
    if (data.contains("pages")) {
      const json& pages = data["pages"];
      const auto one_in = Number(pages, "oneIn");
      tool.Print(fmt::format(
          "pages        {}, {} of {} files dropped after reading",
          one_in > 1 ? fmt::format("memory is short: 1 file in {} stays", one_in) : "all stay",
          FormatSize(Number(pages, "droppedBytes")), FormatCount(Number(pages, "droppedFiles"))));
    }
  }
  if (status.contains("cache")) PrintCache(tool, status["cache"]);
}

}  // namespace

int PrintMountStatus(Tool& tool) {
  const Context ctx = tool.ctx().WithTimeout(std::chrono::seconds(30));
  auto reply = fuse::CallMount(ctx, tool.volume, "GET", "/status");
  if (!reply) return tool.Fail(reply.error());
  const auto status = json::parse(*reply, nullptr, false);
  if (status.is_discarded())
    return tool.Fail(Status(Code::kCorrupt, "the mount process answered with something else"));
  if (tool.json) {
    tool.PrintJson(status);
  } else {
    PrintText(tool, status);
  }
  return kExitDone;
}

}  // namespace paddleop::cmd
