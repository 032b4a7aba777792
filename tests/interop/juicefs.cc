#include "interop/juicefs.h"

#include <gtest/gtest.h>

#include <sstream>

namespace paddleop::testing {
namespace {

// The first line that complains about the volume. How slow the machine is does not count.
std::string Complaint(const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("latency") != std::string::npos) continue;
    for (const char* word : {"<WARNING>", "<ERROR>", "<FATAL>", "broken"}) {
      if (line.find(word) != std::string::npos) return line;
    }
  }
  return "";
}

}  // namespace

Result<Juicefs> Juicefs::Find(std::string home) {
  ASSIGN_OR_RETURN(const std::string folder, Peer::Path("juicefs"));
  return Juicefs(folder + "/juicefs", std::move(home));
}

Result<std::string> Juicefs::Run(const std::vector<std::string>& args) const {
  std::vector<std::string> argv = {program_};
  argv.insert(argv.end(), args.begin(), args.end());
  ASSIGN_OR_RETURN(const ProcessResult result,
                   RunProcess(argv, {"HOME=" + home_, "JFS_GC_SKIPPEDTIME=0"}));
  if (result.exit_code != 0) {
    return Fail(Code::kInternal, "juicefs {} ended with {}: {}{}", args.front(), result.exit_code,
                result.out, result.err);
  }
  return result.out + result.err;
}

Result<void> Juicefs::CheckClean(const std::string& meta_url) const {
  ASSIGN_OR_RETURN(const std::string objects, Run({"fsck", meta_url}));
  ASSIGN_OR_RETURN(const std::string tree, Run({"fsck", meta_url, "--path", "/", "--recursive"}));
  ASSIGN_OR_RETURN(const std::string gc, Run({"gc", meta_url}));
  for (const std::string& output : {objects, tree, gc}) {
    if (const std::string line = Complaint(output); !line.empty()) {
      return Fail(Code::kCorrupt, "the official client complains: {}", line);
    }
  }
  if (gc.find(" 0 leaked") == std::string::npos) {
    return Fail(Code::kCorrupt, "gc finds leaked objects: {}", gc);
  }
  return {};
}

Result<std::unique_ptr<Juicefs::Mount>> Juicefs::MountAt(
    const std::string& meta_url, const std::string& path,
    const std::vector<std::string>& options) const {
  RETURN_IF_ERROR(MakeDirectories(path));
  std::vector<std::string> args = {"mount",
                                   "-d",
                                   meta_url,
                                   path,
                                   "--no-usage-report",
                                   "--enable-xattr",
                                   "--cache-dir",
                                   home_ + "/cache",
                                   "--log",
                                   home_ + "/mount.log",
                                   "--backup-meta",
                                   "0"};
  args.insert(args.end(), options.begin(), options.end());
  ASSIGN_OR_RETURN([[maybe_unused]] const std::string out, Run(args));
  return std::make_unique<Mount>(*this, path);
}

Juicefs::Mount::~Mount() {
  if (auto gone = juicefs_->Run({"umount", path_}); !gone) {
    ADD_FAILURE() << gone.error().message();
  }
}

}  // namespace paddleop::testing
