#include "standalone/node/process/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <cstdio>

namespace paddleop::standalone::node {
namespace {

constexpr std::size_t kLineLimit = 16 << 10;  // of one piece, as container runtimes have it

std::string TimeStamp() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::gmtime_r(&now.tv_sec, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     now.tv_nsec);
}

Result<UniqueFd> OpenLog(const std::string& path) {
  return OpenFile(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
}

}  // namespace

Result<LogFile> LogFile::Open(std::string path, std::size_t limit) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenLog(path));
  struct stat st{};
  const std::size_t size = ::fstat(fd.get(), &st) == 0 ? static_cast<std::size_t>(st.st_size) : 0;
  return LogFile(std::move(path), limit, std::move(fd), size);
}

void LogFile::Feed(std::string_view stream, std::string_view bytes) {
  std::string& rest = rest_[stream == "stderr" ? 1 : 0];
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      rest += bytes;
      bytes = {};
    } else {
      rest += bytes.substr(0, end);
      bytes.remove_prefix(end + 1);
    }
    std::string_view text = rest;
    for (; text.size() > kLineLimit; text.remove_prefix(kLineLimit)) {
      Line(stream, text.substr(0, kLineLimit), false);
    }
    if (end == std::string_view::npos) {
      rest = std::string(text);
    } else {
      Line(stream, text, true);
      rest.clear();
    }
  }
}

void LogFile::Finish() {
  for (int i = 0; i < 2; ++i) {
    // As the runtimes do: the last line had no newline, and a reader must see that.
    if (!rest_[i].empty()) Line(i == 0 ? "stdout" : "stderr", rest_[i], false);
    rest_[i].clear();
  }
}

void LogFile::Line(std::string_view stream, std::string_view text, bool whole) {
  const std::string line =
      fmt::format("{} {} {} {}\n", TimeStamp(), stream, whole ? 'F' : 'P', text);
  if (size_ > 0 && size_ + line.size() > limit_) {
    ::rename(path_.c_str(), (path_ + ".1").c_str());
    if (auto fd = OpenLog(path_)) {
      fd_ = *std::move(fd);
      size_ = 0;
    }
  }
  // A full disk loses lines; the container must not stop for that.
  if (WriteAll(fd_.get(), line)) size_ += line.size();
}

}  // namespace paddleop::standalone::node
