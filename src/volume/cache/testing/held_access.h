// Makes opening or reading a file wait, as a disk does that hangs.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>

#include "base/posix.h"

namespace paddleop::volume::testing {

// Needs root. Whoever opens (FAN_OPEN_PERM) or reads (FAN_ACCESS_PERM) a watched file waits until
// LetOneGo() or the end of this object.
class HeldAccess {
 public:
  HeldAccess() : fd_(::fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY | O_LARGEFILE)) {
    EXPECT_TRUE(fd_.valid()) << std::strerror(errno);
  }

  void Watch(const std::string& path, std::uint64_t what) {
    ASSERT_EQ(::fanotify_mark(fd_.get(), FAN_MARK_ADD, what, AT_FDCWD, path.c_str()), 0)
        << path << ": " << std::strerror(errno);
  }

  // Nobody waits from now on; who does already must be let go.
  void Forget(const std::string& path, std::uint64_t what) {
    ASSERT_EQ(::fanotify_mark(fd_.get(), FAN_MARK_REMOVE, what, AT_FDCWD, path.c_str()), 0)
        << path << ": " << std::strerror(errno);
  }

  // True once somebody waits.
  bool WaitForOne(std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    pollfd ready{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&ready, 1, static_cast<int>(limit.count())) == 1;
  }

  // How many wait now.
  std::size_t Waiting() {
    int bytes = 0;
    EXPECT_EQ(::ioctl(fd_.get(), FIONREAD, &bytes), 0) << std::strerror(errno);
    return static_cast<std::size_t>(bytes) / sizeof(fanotify_event_metadata);
  }

  void LetOneGo() {
    fanotify_event_metadata event{};
    ASSERT_EQ(::read(fd_.get(), &event, sizeof event), static_cast<ssize_t>(sizeof event));
    const fanotify_response allow{.fd = event.fd, .response = FAN_ALLOW};
    EXPECT_EQ(::write(fd_.get(), &allow, sizeof allow), static_cast<ssize_t>(sizeof allow));
    ::close(event.fd);
  }

 private:
  const UniqueFd fd_;  // closing it lets everybody go
};

}  // namespace paddleop::volume::testing
