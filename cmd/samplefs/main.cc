#include "common/command.h"
#include "samplefs/mount_flags.h"
#include "samplefs/tool.h"

int main(int argc, char** argv) {
  using namespace paddleop::cmd;
  Tool tool;
  Command program("samplefs", "A client of JuiceFS volumes for training data", PADDLEOP_VERSION);
  AddFormat(program, tool);
  AddMount(program, tool);
  AddUmount(program, tool);
  AddRefresh(program, tool);
  AddAccessLog(program, tool);
  AddStatus(program, tool);
  AddInfo(program, tool);
  AddLs(program, tool);
  AddCat(program, tool);
  AddCp(program, tool);
  AddMv(program, tool);
  AddRm(program, tool);
  AddRmr(program, tool);
  AddMkdir(program, tool);
  AddSync(program, tool);
  AddWarmup(program, tool);
  AddClear(program, tool);
  AddGc(program, tool);
  AddFsck(program, tool);
  AddRuntime(program, tool);
  // As mount.samplefs we are mount(8)'s helper, for lines of fstab.
  std::vector<std::string> words = TranslateMountHelper(argc, argv);
  std::vector<char*> line;
  line.reserve(words.size());
  for (std::string& word : words) line.push_back(word.data());
  return program.Run(static_cast<int>(line.size()), line.data());
}
