#pragma once

#include <sys/stat.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/secret.h"

namespace paddleop::runtime {

// The bearer token of a set, read from a file and read again when the file changes. The token
// before the change is good for one more hour, because not everybody learns of the new one at the
// same moment; the same goes for one in `<file>.previous`, from when it is first seen.
//
// Thread-safe.
class TokenStore {
 public:
  static constexpr std::chrono::hours kGrace{1};
  static constexpr std::chrono::seconds kLookAgain{1};

  // kNotFound or kInvalid name the file: it is missing, empty, or too short to be a secret.
  static Result<std::unique_ptr<TokenStore>> Open(std::string file, const Logger& log,
                                                  Clock& clock = Clock::System());

  // Judges the value of an Authorization header, in time that tells nothing of the token.
  enum class Verdict { kGood, kMissing, kWrong };
  Verdict Check(std::optional<std::string_view> authorization);

  // What to show to other runtimes of the set.
  Secret Current();
  // The one before, or empty.
  Secret Previous();

 private:
  struct Old {
    Secret token;
    std::chrono::steady_clock::time_point until;
  };

  TokenStore(std::string file, const Logger& log, Clock& clock)
      : file_(std::move(file)), log_(log), clock_(clock) {}
  Result<void> Load() REQUIRES(mutex_);
  void LookAgain() REQUIRES(mutex_);
  void Retire(Secret token) REQUIRES(mutex_);

  const std::string file_;
  const Logger& log_;
  Clock& clock_;
  Mutex mutex_;
  Secret current_ GUARDED_BY(mutex_);
  std::vector<Old> old_ GUARDED_BY(mutex_);       // at most four
  std::string seen_previous_ GUARDED_BY(mutex_);  // digest of what <file>.previous held
  struct timespec changed_ GUARDED_BY(mutex_) = {};
  ino_t inode_ GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point looked_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::runtime
