#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/posix.h"

namespace paddleop::standalone::node {

// A container's log in the format of the container runtime interface: each line is the time, the
// stream, F (whole) or P (the line goes on) and the text. Not thread-safe.
class LogFile {
 public:
  // Past `limit` bytes the file becomes `path`.1 and a new one begins.
  static Result<LogFile> Open(std::string path, std::size_t limit);

  // Takes what the container wrote to `stream` ("stdout" or "stderr"), cut into pieces anyhow.
  void Feed(std::string_view stream, std::string_view bytes);
  // Writes lines that have not ended.
  void Finish();

 private:
  LogFile(std::string path, std::size_t limit, UniqueFd fd, std::size_t size)
      : path_(std::move(path)), limit_(limit), fd_(std::move(fd)), size_(size) {}
  void Line(std::string_view stream, std::string_view text, bool whole);

  std::string path_;
  std::size_t limit_;
  UniqueFd fd_;
  std::size_t size_;
  std::string rest_[2];
};

}  // namespace paddleop::standalone::node
