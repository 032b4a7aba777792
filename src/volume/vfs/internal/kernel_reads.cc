#include "volume/vfs/internal/kernel_reads.h"

#include <libaio.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace paddleop::volume {
namespace {

constexpr std::size_t kMostAtOnce = 16;

}  // namespace

struct KernelReads::State {
  io_context_t context = nullptr;
  UniqueFd ending;
};

std::unique_ptr<KernelReads> KernelReads::Open(std::size_t most) {
  auto state = std::make_unique<State>();
  state->ending = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  // One more, for the message that it ends.
  if (!state->ending.valid() || ::io_setup(static_cast<int>(most) + 1, &state->context) != 0)
    return nullptr;
  std::unique_ptr<KernelReads> reads(new KernelReads(std::move(state)));
  if (!reads->Listen()) return nullptr;
  return reads;
}

KernelReads::KernelReads(std::unique_ptr<State> state) : state_(std::move(state)) {}

KernelReads::~KernelReads() { ::io_destroy(state_->context); }

// An event for who waits, once there is something to read in `ending`; then it stays there.
bool KernelReads::Listen() {
  iocb request = {};
  ::io_prep_poll(&request, state_->ending.get(), POLLIN);
  request.data = nullptr;
  iocb* requests[] = {&request};
  return ::io_submit(state_->context, 1, requests) == 1;
}

bool KernelReads::Begin(int fd, std::span<std::byte> out, std::uint64_t offset, void* tag) {
  iocb request = {};
  ::io_prep_pread(&request, fd, out.data(), out.size(), static_cast<long long>(offset));
  request.data = tag;
  request.aio_rw_flags = RWF_NOWAIT;
  iocb* requests[] = {&request};
  return ::io_submit(state_->context, 1, requests) == 1;
}

std::size_t KernelReads::Wait(std::span<Ended> ended) {
  std::array<io_event, kMostAtOnce> events;
  const auto most = static_cast<long>(std::min(ended.size(), events.size()));
  for (;;) {
    const int got = ::io_getevents(state_->context, 1, most, events.data(), nullptr);
    if (got == -EINTR) continue;
    if (got <= 0) return 0;
    std::size_t count = 0;
    bool ending = false;
    for (const io_event& event : std::span(events).first(static_cast<std::size_t>(got))) {
      if (event.data == nullptr) {
        ending = true;
      } else {
        ended[count++] = {.tag = event.data, .result = static_cast<std::int64_t>(event.res)};
      }
    }
    if (ending) Listen();  // for the next who waits
    if (count > 0 || ending) return count;
  }
}

void KernelReads::End() { ::eventfd_write(state_->ending.get(), 1); }

}  // namespace paddleop::volume
