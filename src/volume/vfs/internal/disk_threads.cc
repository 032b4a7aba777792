#include "volume/vfs/internal/disk_threads.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace paddleop::volume {

DiskThreads::Crew* DiskThreads::Working() {
  MutexLock lock(mutex_);
  if (stopped_) return nullptr;
  const auto hangs = [&](const std::unique_ptr<Crew>& crew) {
    return crew->running.size() == options_.threads &&
           Steady::now() - crew->running.back() >= options_.patience;
  };
  const auto found = std::ranges::find_if_not(crews_, hangs);
  if (found != crews_.end()) return found->get();
  if (crews_.size() == options_.most_crews) return nullptr;
  try {
    crews_.push_back(std::make_unique<Crew>(options_));
  } catch (const std::system_error&) {  // no thread can be started now
    return nullptr;
  }
  return crews_.back().get();
}

ThreadPool::Task DiskThreads::Noted(Crew& crew, ThreadPool::Task task) {
  return [this, &crew, task = std::move(task)]() mutable {
    std::list<Steady::time_point> mine{Steady::now()};
    const auto place = mine.begin();
    {
      MutexLock lock(mutex_);
      crew.running.splice(crew.running.end(), mine);
    }
    task();
    MutexLock lock(mutex_);
    crew.running.erase(place);
  };
}

bool DiskThreads::TrySubmit(ThreadPool::Task task) {
  Crew* const crew = Working();
  return crew != nullptr && crew->pool.TrySubmit(Noted(*crew, std::move(task)));
}

bool DiskThreads::Submit(const Context& ctx, ThreadPool::Task task) {
  Crew* const crew = Working();
  return crew != nullptr && crew->pool.Submit(ctx, Noted(*crew, std::move(task))).has_value();
}

void DiskThreads::Stop() {
  std::vector<Crew*> crews;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    for (const auto& crew : crews_) crews.push_back(crew.get());
  }
  for (Crew* crew : crews) crew->pool.Stop();
}

}  // namespace paddleop::volume
