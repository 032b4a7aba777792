#include "standalone/node/endpoint/log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <deque>

#include "api/meta/time.h"
#include "base/clock.h"
#include "base/posix.h"

namespace paddleop::standalone::node {
namespace {

constexpr std::chrono::milliseconds kLook{200};  // how often a followed log is looked at
constexpr std::size_t kPiece = 64 << 10;

// Where to begin so that `lines` whole lines follow, at most.
Result<off_t> TailOffset(int fd, std::int64_t lines) {
  if (lines <= 0) {
    struct stat st{};
    if (::fstat(fd, &st) != 0) return ErrnoFail("look at a log");
    return st.st_size;
  }
  std::deque<off_t> starts{0};
  std::string buffer(kPiece, '\0');
  off_t at = 0;
  for (;;) {
    const ssize_t n = ::pread(fd, buffer.data(), buffer.size(), at);
    if (n < 0) return ErrnoFail("read a log");
    if (n == 0) break;
    for (ssize_t i = 0; i < n; ++i) {
      if (buffer[static_cast<std::size_t>(i)] != '\n') continue;
      starts.push_back(at + i + 1);
      // One more than asked for: the last one is where the next line will be.
      if (starts.size() > static_cast<std::size_t>(lines) + 1) starts.pop_front();
    }
    at += n;
  }
  return starts.front();
}

class Reader {
 public:
  Reader(const LogQuery& query, const std::function<Result<void>(std::string_view)>& sink)
      : query_(query), sink_(sink), left_(query.limit_bytes.value_or(INT64_MAX)) {}

  // Takes bytes of the file; an incomplete last line is kept for the next call.
  Result<void> Feed(std::string_view bytes) {
    rest_ += bytes;
    std::string out;
    std::size_t begin = 0;
    for (std::size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1)
      Add(std::string_view(rest_).substr(begin, end - begin), out);
    rest_.erase(0, begin);
    if (static_cast<std::int64_t>(out.size()) > left_) out.resize(static_cast<std::size_t>(left_));
    left_ -= static_cast<std::int64_t>(out.size());
    if (out.empty()) return {};
    return sink_(out);
  }
  bool full() const { return left_ <= 0; }

 private:
  void Add(std::string_view line, std::string& out) const {
    const auto parsed = ParseLogLine(line);
    if (!parsed) return;
    if (query_.since) {
      const auto time = api::ParseMicroTime(parsed->time);
      if (time && *time < *query_.since) return;
    }
    if (query_.timestamps) {
      out += parsed->time;
      out += ' ';
    }
    out += parsed->text;
    if (parsed->whole) out += '\n';
  }

  const LogQuery& query_;
  const std::function<Result<void>(std::string_view)>& sink_;
  std::int64_t left_;
  std::string rest_;
};

bool Rotated(int fd, const std::string& path) {
  struct stat ours{};
  struct stat named{};
  return ::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &named) == 0 &&
         ours.st_ino != named.st_ino;
}

}  // namespace

std::optional<LogLine> ParseLogLine(std::string_view line) {
  LogLine out;
  const std::size_t first = line.find(' ');
  if (first == std::string_view::npos) return std::nullopt;
  out.time = line.substr(0, first);
  const std::size_t second = line.find(' ', first + 1);
  if (second == std::string_view::npos || second + 2 > line.size()) return std::nullopt;
  out.whole = line[second + 1] == 'F';
  out.text = line.substr(std::min(line.size(), second + 3));
  return out;
}

Result<void> ReadLog(const Context& ctx, const std::string& run_directory, const LogQuery& query,
                     const std::function<Result<void>(std::string_view)>& sink) {
  const std::string path = run_directory + "/log";
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDONLY | O_CLOEXEC));
  off_t at = 0;
  if (query.tail_lines) {
    ASSIGN_OR_RETURN(at, TailOffset(fd.get(), *query.tail_lines));
  }
  Reader reader(query, sink);
  std::string buffer(kPiece, '\0');
  bool ended = false;
  while (!reader.full()) {
    const ssize_t n = ::pread(fd.get(), buffer.data(), buffer.size(), at);
    if (n < 0) return ErrnoFail("read {}", path);
    if (n > 0) {
      at += n;
      RETURN_IF_ERROR(reader.Feed(std::string_view(buffer).substr(0, static_cast<std::size_t>(n))));
      continue;
    }
    if (!query.follow || ended) return {};
    if (Rotated(fd.get(), path)) {
      ASSIGN_OR_RETURN(fd, OpenFile(path, O_RDONLY | O_CLOEXEC));
      at = 0;
      continue;
    }
    // What was written before the end is read once more after the end is known.
    ended = ReadExit(run_directory).has_value();
    if (!ended && !Clock::System().SleepFor(ctx, kLook)) return ctx.Check();
  }
  return {};
}

}  // namespace paddleop::standalone::node
