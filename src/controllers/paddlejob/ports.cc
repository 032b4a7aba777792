#include "controllers/paddlejob/ports.h"

#include <algorithm>
#include <set>

#include "controllers/paddlejob/names.h"

namespace paddleop::controllers::paddlejob {

std::vector<int> PortAllocator::Blocks(const std::string& job, int count,
                                       const std::vector<int>& stored,
                                       const std::map<std::string, std::vector<int>>& others) {
  MutexLock lock(mutex_);
  std::set<int> taken;
  for (const auto& [name, blocks] : others) {
    if (name != job) taken.insert(blocks.begin(), blocks.end());
  }
  for (const auto& [name, blocks] : promised_) {
    if (name != job) taken.insert(blocks.begin(), blocks.end());
  }
  std::vector<int>& mine = promised_[job];
  for (const int block : stored) {
    if (std::find(mine.begin(), mine.end(), block) == mine.end()) mine.insert(mine.begin(), block);
  }
  for (int block = first_; static_cast<int>(mine.size()) < count && block + kPortsPerPod <= last_;
       block += kPortsPerPod) {
    if (taken.contains(block) || std::find(mine.begin(), mine.end(), block) != mine.end()) continue;
    mine.push_back(block);
  }
  std::vector<int> blocks(mine.begin(),
                          mine.begin() + std::min<std::ptrdiff_t>(count, std::ssize(mine)));
  if (mine.empty()) promised_.erase(job);
  return blocks;
}

void PortAllocator::Release(const std::string& job) {
  MutexLock lock(mutex_);
  promised_.erase(job);
}

}  // namespace paddleop::controllers::paddlejob
