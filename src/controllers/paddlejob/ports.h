#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace paddleop::controllers::paddlejob {

// Hands out blocks of 20 host ports to jobs, so that no two jobs of the cluster share one. What a
// job holds is stored in its annotations; this class adds what has been promised and not been
// stored yet.
//
// Thread-safe.
class PortAllocator {
 public:
  // Ports `first` up to and without `last`.
  PortAllocator(int first, int last) : first_(first), last_(last) {}

  // `count` first ports for the job: those it holds (`stored`) come first and stay. `others` is
  // what all other jobs have stored. Fewer than `count` (possibly none) if the range is used up.
  std::vector<int> Blocks(const std::string& job, int count, const std::vector<int>& stored,
                          const std::map<std::string, std::vector<int>>& others);
  // The job is gone or over.
  void Release(const std::string& job);

 private:
  const int first_;
  const int last_;
  Mutex mutex_;
  std::map<std::string, std::vector<int>> promised_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::controllers::paddlejob
