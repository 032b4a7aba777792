#pragma once

namespace paddleop {

// From now on the calling thread, and those that it starts, do not push others off their processor
// when they wake up: they wait for their turn (SCHED_BATCH). On a busy machine they then find more
// to do at a time, which saves switches on both sides. For work of which only the total counts. A
// policy that whoever started the program chose (chrt) stays.
void SetThreadBatch();

}  // namespace paddleop
