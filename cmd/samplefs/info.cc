#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "samplefs/tool.h"
#include "volume/format/chunk_view.h"

namespace paddleop::cmd {
namespace {

// The objects that hold the visible bytes of one chunk.
nlohmann::json ObjectsOf(const volume::Volume& volume, std::span<const volume::Slice> records,
                         std::uint32_t length, std::uint32_t index) {
  nlohmann::json objects = nlohmann::json::array();
  const auto layout = volume.setting().layout();
  for (const volume::Slice& piece : volume::BuildChunkView(records, length)) {
    if (piece.len == 0) continue;
    if (piece.id == 0) {
      objects.push_back(
          {{"chunk", index}, {"position", piece.pos}, {"length", piece.len}, {"hole", true}});
      continue;
    }
    const std::uint32_t last = (piece.off + piece.len - 1) / layout.block_size;
    for (std::uint32_t i = piece.off / layout.block_size; i <= last; ++i) {
      const volume::BlockId block{
          .slice = piece.id, .index = i, .length = volume::BlockLength(layout, piece.size, i)};
      objects.push_back({{"chunk", index},
                         {"object", volume.setting().name + "/" + volume::BlockKey(layout, block)},
                         {"slice", piece.id},
                         {"position", piece.pos},
                         {"offset", piece.off},
                         {"length", piece.len}});
    }
  }
  return objects;
}

Result<nlohmann::json> Describe(Tool& tool, volume::Volume& volume, const std::string& path) {
  ASSIGN_OR_RETURN(auto entry,
                   volume.meta().Resolve(tool.ctx(), Tool::Caller(), volume::kRootIno, path));
  nlohmann::json out = {{"path", path.empty() ? "/" : path},
                        {"inode", volume::ToInt(entry.ino)},
                        {"type", TypeName(entry.attr.type)},
                        {"mode", fmt::format("{:04o}", entry.attr.mode)},
                        {"uid", entry.attr.uid},
                        {"gid", entry.attr.gid},
                        {"links", entry.attr.nlink},
                        {"length", entry.attr.length}};
  if (entry.attr.type == volume::FileType::kDirectory) {
    ASSIGN_OR_RETURN(const auto sum, volume.meta().Summarize(tool.ctx(), entry.ino));
    out["summary"] = {{"length", sum.length},
                      {"space", sum.space},
                      {"files", sum.files},
                      {"directories", sum.directories}};
    return out;
  }
  if (entry.attr.type != volume::FileType::kFile) return out;
  out["objects"] = nlohmann::json::array();
  for (std::uint64_t at = 0; at < entry.attr.length; at += volume::kChunkSize) {
    const auto index = static_cast<std::uint32_t>(at / volume::kChunkSize);
    ASSIGN_OR_RETURN(const auto records, volume.meta().ReadSlices(tool.ctx(), entry.ino, index));
    const auto length =
        static_cast<std::uint32_t>(std::min(volume::kChunkSize, entry.attr.length - at));
    for (auto& object : ObjectsOf(volume, records, length, index))
      out["objects"].push_back(std::move(object));
  }
  return out;
}

void PrintText(const Tool& tool, const nlohmann::json& info) {
  tool.Print(info["path"].get<std::string>());
  tool.Print(fmt::format("  inode    {}", info["inode"].get<std::uint64_t>()));
  tool.Print(fmt::format("  type     {}, mode {}, owner {}:{}", info["type"].get<std::string>(),
                         info["mode"].get<std::string>(), info["uid"].get<std::uint32_t>(),
                         info["gid"].get<std::uint32_t>()));
  if (info.contains("summary")) {
    const auto& sum = info["summary"];
    tool.Print(fmt::format("  content  {} in {} files and {} directories",
                           FormatSize(sum["length"].get<std::uint64_t>()),
                           FormatCount(sum["files"].get<std::uint64_t>()),
                           FormatCount(sum["directories"].get<std::uint64_t>())));
  } else {
    tool.Print(fmt::format("  length   {} ({} bytes)",
                           FormatSize(info["length"].get<std::uint64_t>()),
                           info["length"].get<std::uint64_t>()));
  }
  if (!info.contains("objects")) return;
  for (const auto& object : info["objects"]) {
    tool.Print(object.contains("hole")
                   ? fmt::format("  chunk {} at {}: {} bytes of zeros", object["chunk"].get<int>(),
                                 object["position"].get<std::uint32_t>(),
                                 object["length"].get<std::uint32_t>())
                   : fmt::format("  chunk {} at {}: {}", object["chunk"].get<int>(),
                                 object["position"].get<std::uint32_t>(),
                                 object["object"].get<std::string>()));
  }
}

int RunInfo(Tool& tool, const std::vector<std::string>& paths) {
  auto opened = tool.OpenVolume({.read_only = true, .memory_cache_bytes = 0});
  if (!opened) return tool.Fail(opened.error());
  int code = kExitDone;
  for (const auto& path : paths.empty() ? std::vector<std::string>{"/"} : paths) {
    auto info = Describe(tool, **opened, path);
    if (!info) {
      code = tool.Fail(info.error().Wrap(path));
    } else if (tool.json) {
      tool.PrintJson(*info);
    } else {
      PrintText(tool, *info);
    }
  }
  return code;
}

}  // namespace

void AddInfo(Command& program, Tool& tool) {
  auto paths = std::make_shared<std::vector<std::string>>();
  Command command =
      program.AddCommand("info", "show a file's attributes and objects, or what a directory holds",
                         [paths, &tool] { return RunInfo(tool, *paths); });
  command.AddArgument("VOLUME", &tool.volume, "metadata URL");
  command.AddArguments("PATH", paths.get(), "paths in the volume; the root if there is none",
                       false);
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
