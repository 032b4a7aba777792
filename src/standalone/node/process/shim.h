// The process between the agent and a container's command. It outlives the agent, so that pods do
// not end with it: it starts the command, writes its log, and leaves a file that says how it ended.
#pragma once

namespace paddleop::standalone::node {

// Names under which a program that can be a shim must call ShimMain: argv[1].
inline constexpr char kShimCommand[] = "pod-process";
inline constexpr char kExecCommand[] = "pod-exec";
inline constexpr char kRemountCommand[] = "pod-remount";

// Is this program started as a shim or as its companion? Then it does that work and ends; otherwise
// this returns. Call it before anything else; single-threaded.
void ShimMain(int argc, char** argv);

}  // namespace paddleop::standalone::node
