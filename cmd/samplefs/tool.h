// What every sub-command of samplefs shares: output, errors, opening the volume, paths.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/context.h"
#include "base/log.h"
#include "base/metrics.h"
#include "common/command.h"
#include "volume/vfs/volume.h"

namespace paddleop::cmd {

class Tool {
 public:
  Tool();

  // Adds the options that all sub-commands have: --json, --log-level.
  void AddCommonOptions(Command& command);

  bool json = false;
  std::string volume;  // the VOLUME argument

  // Stopped by SIGINT and SIGTERM.
  const Context& ctx() const { return ctx_; }
  const Logger& log();
  // As --log-level does; before the first use of the log.
  void SetLogLevel(const std::string& level) { log_level_ = level; }
  MetricsRegistry& metrics() { return metrics_; }

  // Opens `volume`. Passwords missing from the URL come from META_PASSWORD.
  Result<std::unique_ptr<volume::Volume>> OpenVolume(volume::VolumeOptions options = {});
  // The metadata URL. Of a VOLUME that is no URL: that of what is mounted there, asked of its
  // process.
  Result<std::string> ResolveVolume();
  // True if VOLUME is a path, which then means what is mounted there.
  bool IsPath() const { return volume.find("://") == std::string::npos; }
  std::string MetaUrl() const;

  // The user who runs the command.
  static volume::Caller Caller();

  // Prints an error as text or as {"error": ...} and returns the exit code for it.
  int Fail(const Status& error) const;
  void Print(std::string_view text) const;  // a line on standard output
  void PrintJson(const nlohmann::json& value) const;

 private:
  std::string log_level_ = "warn";
  std::unique_ptr<Logger> log_;
  MetricsRegistry metrics_;
  std::stop_source stop_;
  Context ctx_;
};

// The directory that holds (or will hold) the last part of `path`, and that part.
Result<std::pair<volume::Entry, std::string>> ResolveParent(Tool& tool, volume::MetaStore& meta,
                                                            std::string_view path);

std::string_view TypeName(volume::FileType type);

// What the process behind the mount point `tool.volume` says of itself.
int PrintMountStatus(Tool& tool);

// Each adds one sub-command; see the file of that name.
void AddAccessLog(Command& program, Tool& tool);
void AddCat(Command& program, Tool& tool);
void AddClear(Command& program, Tool& tool);
void AddCp(Command& program, Tool& tool);
void AddFormat(Command& program, Tool& tool);
void AddFsck(Command& program, Tool& tool);
void AddGc(Command& program, Tool& tool);
void AddInfo(Command& program, Tool& tool);
void AddLs(Command& program, Tool& tool);
void AddMkdir(Command& program, Tool& tool);
void AddMount(Command& program, Tool& tool);
void AddMv(Command& program, Tool& tool);
void AddRefresh(Command& program, Tool& tool);
void AddRm(Command& program, Tool& tool);
void AddRmr(Command& program, Tool& tool);
void AddRuntime(Command& program, Tool& tool);
void AddStatus(Command& program, Tool& tool);
void AddUmount(Command& program, Tool& tool);
void AddSync(Command& program, Tool& tool);
void AddWarmup(Command& program, Tool& tool);

}  // namespace paddleop::cmd
