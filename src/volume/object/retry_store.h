#pragma once

#include <chrono>
#include <memory>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::object {

struct RetryOptions {
  BackoffOptions backoff{.initial = std::chrono::milliseconds(100),
                         .maximum = std::chrono::seconds(10),
                         .max_attempts = 10};
  // One attempt that takes longer is given up and counts as kUnavailable: a hanging request must
  // not use up the whole deadline.
  std::chrono::milliseconds attempt_timeout{60'000};
  // The same for one download and one upload; 0: as above.
  std::chrono::milliseconds get_timeout{0};
  std::chrono::milliseconds put_timeout{0};
  // Most that RetryAfter() can add to a delay: some servers ask for minutes while they start. A
  // wait that would pass the deadline is cut to the usual delay.
  std::chrono::milliseconds max_retry_after{15'000};
  // A body that does not match its checksum is read again this often: the damage may have happened
  // on the way.
  int corrupt_retries = 2;
};

// Tries again what failed with kUnavailable, with growing delays that respect RetryAfter(), until
// the attempts or the caller's deadline are used up; then the store's own last error is returned.
// Listings go on behind the last key that was shown. All operations of a store may be repeated; a
// CompleteUpload whose reply was lost is recognised by the object it made.
std::unique_ptr<ObjectStore> WithRetry(std::unique_ptr<ObjectStore> inner, RetryOptions options,
                                       Clock& clock = Clock::System(),
                                       MetricsRegistry* metrics = nullptr);

}  // namespace paddleop::volume::object
