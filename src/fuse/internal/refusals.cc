#include "fuse/internal/refusals.h"

#include <functional>

namespace paddleop::fuse {

std::pair<Refusals::Slot*, bool> Refusals::Find(pid_t thread, volume::Ino ino,
                                                std::string_view name, Clock::time_point now) {
  const std::size_t hash = std::hash<std::string_view>{}(name);
  const std::uint64_t mixed = ((ToInt(ino) ^ hash) * 0x9e3779b97f4a7c15ULL) ^
                              (static_cast<std::uint64_t>(thread) * 0xc2b2ae3d27d4eb4fULL);
  if (slots_.empty()) slots_.resize(kSlots);
  Slot& slot = slots_[static_cast<std::size_t>(mixed >> 40) % kSlots];
  if (slot.ino == ino && slot.name == hash && slot.thread == thread && now < slot.until)
    return {&slot, true};
  slot = {.ino = ino, .name = hash, .thread = thread, .until = {}};
  return {&slot, false};
}

bool Refusals::Refuses(pid_t thread, volume::Ino ino, Clock::time_point now) {
  MutexLock lock(mutex_);
  const auto [slot, refused] = Find(thread, ino, {}, now);
  slot->until = refused ? now : now + kTime;
  return !refused;
}

bool Refusals::RefusesName(pid_t thread, volume::Ino directory, std::string_view name,
                           Clock::time_point now) {
  MutexLock lock(mutex_);
  const auto [slot, refused] = Find(thread, directory, name, now);
  if (!refused) slot->until = now + kNameTime;
  return !refused;
}

}  // namespace paddleop::fuse
