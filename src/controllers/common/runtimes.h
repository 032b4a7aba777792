// The Cache Runtime Servers of sets, as controllers reach them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "api/core/objects.h"
#include "base/mutex.h"
#include "runtime/client/runtime_client.h"

namespace paddleop::controllers {

// Keys of the Secret <set>-runtime-auth. The authority's key stays in the Secret: pods mount the
// others only.
namespace auth_key {
inline constexpr char kAuthority[] = "ca.crt";
inline constexpr char kAuthorityKey[] = "ca.key";
inline constexpr char kCertificate[] = "tls.crt";
inline constexpr char kKey[] = "tls.key";
inline constexpr char kToken[] = "token";
inline constexpr char kPreviousToken[] = "token.previous";
}  // namespace auth_key

// On everything made for a set: its name and its UID. What carries another UID is not ours.
inline constexpr char kSetLabel[] = "paddlepaddle.org/sampleset";
inline constexpr char kSetUidLabel[] = "paddlepaddle.org/sampleset-uid";

// <set>-runtime-auth
std::string RuntimeAuthName(const std::string& set);

// What runtime 0 says of a job.
struct JobSeen {
  bool known = false;  // false: it has no such job
  runtime::JobResult result;
};

// What proves us to the runtimes of one set.
struct RuntimeAccess {
  std::string authority;
  Secret token;
  Secret previous_token;

  bool usable() const { return !authority.empty() && !token.empty(); }
  static RuntimeAccess From(const api::SecretObject& secret);
};

// Clients by address, kept while their keys are good: a connection and its handshake are reused by
// every pass over a set. At the limit the one used longest ago goes.
//
// Thread-safe.
class RuntimePool {
 public:
  explicit RuntimePool(runtime::RuntimeDialer dial, std::size_t limit = 1024);

  // `host` is a pod's address.
  Result<std::shared_ptr<runtime::RuntimeClient>> Find(const std::string& host,
                                                       const std::string& tls_name,
                                                       const RuntimeAccess& access);

 private:
  struct Entry {
    std::shared_ptr<runtime::RuntimeClient> client;
    RuntimeAccess access;
    std::uint64_t used = 0;
  };

  const runtime::RuntimeDialer dial_;
  const std::size_t limit_;
  Mutex mutex_;
  std::uint64_t uses_ GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, Entry> clients_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::controllers
