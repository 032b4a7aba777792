#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/secret.h"
#include "runtime/protocol/job.h"
#include "runtime/protocol/paths.h"
#include "runtime/protocol/status.h"

namespace paddleop::runtime {

// Where a runtime is and how to prove both sides.
struct ClientOptions {
  std::string address;   // host:port
  std::string tls_name;  // RuntimeTlsName(): what its certificate must say
  std::string ca_pem;    // the set's own authority; wins over ca_file
  std::string ca_file;
  Secret token;
  // Tried when `token` is refused: a runtime learns of a new token some time after the Secret has
  // changed.
  Secret previous_token;
  // For calls whose context has no earlier deadline.
  std::chrono::milliseconds timeout{10'000};
};

// One Cache Runtime Server, as controllers and other runtimes see it.
//
// Thread-safe. Errors of the runtime come with its own code and message; besides them kUnavailable
// (not reachable, not ready), kPermission (token or certificate refused), kDeadline, kCancelled.
// Nothing is retried here: every call may be repeated safely.
class RuntimeClient {
 public:
  virtual ~RuntimeClient() = default;

  // Posts a job. Posting a name again changes nothing and returns the job as it is. kConflict if
  // the name was used for other options, kInvalid names the field.
  virtual Result<JobResult> Post(const Context& ctx, const JobRequest& request) = 0;
  // kNotFound if the runtime has no such job: it was never posted, or the journal was lost.
  virtual Result<JobResult> GetResult(const Context& ctx, JobKind kind,
                                      const std::string& name) = 0;
  // The request as it was posted, without credentials.
  virtual Result<JobRequest> GetRequest(const Context& ctx, JobKind kind,
                                        const std::string& name) = 0;
  // All jobs that the journal has, newest first.
  virtual Result<std::vector<JobResult>> ListJobs(const Context& ctx) = 0;
  // Asks the job to stop; one that has ended stays as it is. The state becomes kCancelled when it
  // really has stopped.
  virtual Result<JobResult> Cancel(const Context& ctx, const std::string& name) = 0;
  // Cancels every unfinished job.
  virtual Result<void> CancelAll(const Context& ctx) = 0;

  virtual Result<CacheInfo> GetCacheInfo(const Context& ctx) = 0;
  // kConflict if the runtime has a table of a higher generation.
  virtual Result<void> PutPeers(const Context& ctx, const PeerTable& table) = 0;
  virtual Result<PeerTable> GetPeers(const Context& ctx) = 0;
  // The set is going away: ends all jobs and drops what the runtime keeps on its node: cached
  // blocks, pins, journal. The volume's data stays. Afterwards the runtime takes no more jobs.
  virtual Result<void> Purge(const Context& ctx) = 0;
};

// Over HTTPS. kInvalid names what is missing of the options.
Result<std::unique_ptr<RuntimeClient>> OpenRuntimeClient(ClientOptions options);

// How controllers get clients, so that tests can give others.
using RuntimeDialer =
    std::function<Result<std::unique_ptr<RuntimeClient>>(const ClientOptions& options)>;

}  // namespace paddleop::runtime
