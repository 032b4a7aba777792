#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/posix.h"

namespace paddleop::volume {

// Reads of files that the kernel carries out while nobody waits for them (kernel AIO; files opened
// with O_DIRECT, others are read while they are begun).
//
// Thread-safe.
class KernelReads {
 public:
  struct Ended {
    void* tag;
    std::int64_t result;  // bytes, or a negative errno
  };

  // Room for `most` reads at a time. Null where the kernel, or the container, does not offer this.
  static std::unique_ptr<KernelReads> Open(std::size_t most);
  // Waits for the reads under way.
  ~KernelReads();
  KernelReads(const KernelReads&) = delete;
  KernelReads& operator=(const KernelReads&) = delete;

  // Begins a read; `out` belongs to the kernel until it has ended. False: nothing was begun, for
  // instance where a file system does not know which reads would wait. One that would have to wait
  // for the file system ends with -EAGAIN. For room in the disk's queue this call itself waits.
  bool Begin(int fd, std::span<std::byte> out, std::uint64_t offset, void* tag);
  // Waits until reads have ended, and returns how many were put into `ended`; 0 once End was called
  // and no more are there at the moment. For any number of threads.
  std::size_t Wait(std::span<Ended> ended);
  // Wakes all who wait, now and from now on.
  void End();

 private:
  struct State;
  explicit KernelReads(std::unique_ptr<State> state);
  bool Listen();

  const std::unique_ptr<State> state_;
};

}  // namespace paddleop::volume
