#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "samplefs/tool.h"
#include "volume/data/copy.h"

namespace paddleop::cmd {
namespace {

constexpr std::string_view kLocal = "file:";

struct CpFlags {
  std::vector<std::string> paths;
  bool recursive = false;
};

bool IsLocal(std::string_view path) { return path.starts_with(kLocal); }
std::string LocalPath(std::string_view path) {
  path.remove_prefix(kLocal.size());
  if (path.starts_with("//")) path.remove_prefix(2);
  return std::string(path);
}
std::string BaseName(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

// Where a source goes in the volume: into the destination if that is a directory, else under its
// name.
struct Target {
  volume::Ino parent;
  std::string name;
};

Result<Target> TargetFor(Tool& tool, volume::Volume& volume, const std::string& destination,
                         const std::string& source, bool several) {
  auto existing = volume.meta().Resolve(tool.ctx(), Tool::Caller(), volume::kRootIno, destination);
  if (existing && existing->attr.type == volume::FileType::kDirectory)
    return Target{existing->ino, BaseName(source)};
  if (!existing && !IsNotFound(existing.error()))
    return std::unexpected(std::move(existing).error());
  if (several || destination.ends_with('/'))
    return paddleop::Fail(Code::kNotDirectory, "{} is not a directory", destination);
  ASSIGN_OR_RETURN(auto parent, ResolveParent(tool, volume.meta(), destination));
  return Target{parent.first.ino, parent.second};
}

Result<void> CopyOne(Tool& tool, volume::Volume& volume, volume::data::Copier& copier,
                     const std::string& source, const std::string& destination, bool several) {
  if (IsLocal(source)) {
    ASSIGN_OR_RETURN(const Target target,
                     TargetFor(tool, volume, destination, LocalPath(source), several));
    copier.In(tool.ctx(), LocalPath(source), target.parent, target.name);
    return {};
  }
  ASSIGN_OR_RETURN(const auto from,
                   volume.meta().Resolve(tool.ctx(), Tool::Caller(), volume::kRootIno, source));
  if (IsLocal(destination)) {
    std::string local = LocalPath(destination);
    if (several || std::filesystem::is_directory(local)) local += "/" + BaseName(source);
    copier.Out(tool.ctx(), from, local);
    return {};
  }
  ASSIGN_OR_RETURN(const Target target, TargetFor(tool, volume, destination, source, several));
  copier.Within(tool.ctx(), from, target.parent, target.name, source);
  return {};
}

int RunCp(Tool& tool, const CpFlags& flags) {
  if (flags.paths.size() < 2) {
    tool.Fail(Status(Code::kInvalid, "cp needs a source and a destination"));
    return kExitUsage;
  }
  auto opened = tool.OpenVolume();
  if (!opened) return tool.Fail(opened.error());
  volume::data::Copier copier((*opened)->vfs(), Tool::Caller(), flags.recursive);
  const std::string& destination = flags.paths.back();
  for (std::size_t i = 0; i + 1 < flags.paths.size(); ++i) {
    auto copied =
        CopyOne(tool, **opened, copier, flags.paths[i], destination, flags.paths.size() > 2);
    if (!copied) return tool.Fail(copied.error().Wrap(flags.paths[i]));
  }
  const auto& report = copier.report();
  nlohmann::json failures = nlohmann::json::array();
  for (const auto& failure : report.failures) {
    if (!tool.json) fmt::print(stderr, "samplefs: {}: {}\n", failure.path, failure.error.message());
    failures.push_back({{"path", failure.path}, {"error", failure.error.message()}});
  }
  if (tool.json) {
    tool.PrintJson({{"files", report.files},
                    {"directories", report.directories},
                    {"bytes", report.bytes},
                    {"failures", failures}});
  } else {
    tool.Print(fmt::format("{} files, {}", FormatCount(report.files), FormatSize(report.bytes)));
  }
  if (report.failures.empty()) return kExitDone;
  return report.files + report.directories > 0 ? kExitPartly : kExitFailed;
}

}  // namespace

void AddCp(Command& program, Tool& tool) {
  auto flags = std::make_shared<CpFlags>();
  Command command = program.AddCommand("cp", "copy into, out of and within a volume",
                                       [flags, &tool] { return RunCp(tool, *flags); });
  command.AddArgument("VOLUME", &tool.volume, "metadata URL");
  command.AddArguments(
      "PATH", &flags->paths,
      "sources and destination; file:PATH is a path of this machine, others lie in the volume");
  command.AddFlag("-r,--recursive", &flags->recursive, "copy directories with all they hold");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
