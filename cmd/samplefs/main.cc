#include "common/command.h"
#include "samplefs/tool.h"

int main(int argc, char** argv) {
  using namespace paddleop::cmd;
  Tool tool;
  Command program("samplefs", "A client of JuiceFS volumes for training data", PADDLEOP_VERSION);
  AddFormat(program, tool);
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
  return program.Run(argc, argv);
}
