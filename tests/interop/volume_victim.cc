// Changes a volume as told on standard input, until it is killed: volume_victim META_URL.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <sstream>

#include "base/bytes.h"
#include "base/log.h"
#include "base/metrics.h"
#include "interop/file_view.h"
#include "interop/victim.h"

namespace paddleop::testing {
namespace {

using volume::Caller;
using volume::kRootIno;

class Victim {
 public:
  explicit Victim(volume::Volume& volume) : volume_(volume), view_(MakeVolumeView(volume)) {}

  Result<void> Run(const std::string& line) {
    std::istringstream in(line);
    std::string operation;
    std::string name;
    in >> operation >> name;
    if (operation == "put") {
      std::uint64_t id = 0;
      std::size_t size = 0;
      in >> id >> size;
      RETURN_IF_ERROR(view_->Write("new", 0, VictimBytes(id, size)));
      return view_->Rename("new", name);
    }
    if (operation == "poke") {
      std::uint64_t offset = 0;
      std::uint64_t id = 0;
      std::size_t size = 0;
      in >> offset >> id >> size;
      return view_->Write(name, offset, VictimBytes(id, size));
    }
    if (operation == "cut") {
      std::uint64_t length = 0;
      in >> length;
      return view_->Truncate(name, length);
    }
    if (operation == "move" || operation == "link") {
      std::string target;
      in >> target;
      return operation == "move" ? view_->Rename(name, target) : view_->Link(name, target);
    }
    if (operation == "remove") return view_->Unlink(name);
    if (operation == "hold") return Hold(name);
    if (operation == "pack") {
      std::uint64_t id = 0;
      std::uint32_t count = 0;
      in >> id >> count;
      return Pack(name, id, count);
    }
    if (operation == "rmr") {
      RETURN_IF_ERROR(volume_.meta().RemoveTree(ctx_, Caller(), kRootIno, name, {}));
      return {};
    }
    return Fail(Code::kInvalid, "unknown operation {}", line);
  }

 private:
  Result<void> Hold(const std::string& name) {
    ASSIGN_OR_RETURN(const auto entry, volume_.meta().Lookup(ctx_, Caller(), kRootIno, name));
    RETURN_IF_ERROR(volume_.vfs().Open(ctx_, Caller(), entry.ino, {.read = true}));
    return view_->Unlink(name);
  }

  Result<void> Pack(const std::string& name, std::uint64_t id, std::uint32_t count) {
    ASSIGN_OR_RETURN(const auto directory,
                     volume_.meta().Mkdir(ctx_, Caller(), kRootIno, name, 0755));
    const auto size = static_cast<std::uint32_t>(count * kPackedSize);
    ASSIGN_OR_RETURN(const std::uint64_t slice, volume_.meta().NewSliceId(ctx_));
    const std::string bytes = VictimBytes(id, size);
    const auto block = volume_.blocks().BlockOf({.id = slice, .size = size}, 0);
    RETURN_IF_ERROR(volume_.blocks().WriteBlock(ctx_, block, AsBytes(bytes)));
    std::vector<volume::NewFile> files(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      files[i].parent = directory.ino;
      files[i].name = "p" + std::to_string(i);
      files[i].length = kPackedSize;
      files[i].chunks = {{.index = 0,
                          .slices = {{.pos = 0,
                                      .id = slice,
                                      .size = size,
                                      .off = static_cast<std::uint32_t>(i * kPackedSize),
                                      .len = kPackedSize}}}};
    }
    for (auto& answer : volume_.meta().CommitFiles(ctx_, files, {})) RETURN_IF_ERROR(answer);
    return {};
  }

  const Context ctx_ = Context::Background();
  volume::Volume& volume_;
  std::unique_ptr<FileView> view_;
};

int Main(const std::string& url) {
  const Logger log(LogLevel::kError);
  MetricsRegistry metrics;
  auto opened = volume::Volume::Open(
      Context::Background(), url,
      {.session = volume::SessionInfo{.version = "1.3.1",
                                      .host_name = "victim",
                                      .mount_point = "victim",
                                      .process_id = static_cast<std::uint64_t>(::getpid())}},
      log, metrics);
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().ToString().c_str());
    return 1;
  }
  Victim victim(**opened);
  std::string line;
  for (int number = 0; std::getline(std::cin, line); ++number) {
    const auto done = victim.Run(line);
    if (!done) {
      std::fprintf(stderr, "%s: %s\n", line.c_str(), done.error().ToString().c_str());
      return 1;
    }
    std::printf("%d\n", number);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace paddleop::testing

int main(int argc, char** argv) { return argc == 2 ? paddleop::testing::Main(argv[1]) : 2; }
