// Runtimes of one SampleSet as real processes, with real Redis and MinIO behind them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/posix.h"
#include "net/testing/certificates.h"
#include "runtime/client/runtime_client.h"
#include "support/peer.h"
#include "volume/vfs/volume.h"

namespace paddleop::testing {

struct RuntimeSetOptions {
  std::uint32_t partitions = 3;
  std::uint64_t cache_mib = 512;  // of each partition
  bool redis_durable = false;     // its data survives kill -9
  // Extra flags of every runtime.
  std::vector<std::string> flags;
};

class RuntimeSet {
 public:
  static Result<std::unique_ptr<RuntimeSet>> Start(const RuntimeSetOptions& options);
  ~RuntimeSet();

  const Context& ctx() const { return ctx_; }
  std::uint32_t partitions() const { return options_.partitions; }
  runtime::RuntimeClient& client(std::uint32_t i) { return *nodes_[i].client; }
  Peer& redis() { return *redis_; }
  Peer& minio() { return *minio_; }
  std::string meta_url() const { return meta_url_; }
  std::string Path(const std::string& name) const { return dir_.File(name); }
  std::string CacheDir(std::uint32_t i) const { return dir_.File("cache-" + std::to_string(i)); }
  std::string Log(std::uint32_t i) const;

  void Kill(std::uint32_t i);  // -9
  Result<void> Restart(std::uint32_t i);
  // Until it takes jobs.
  Result<runtime::CacheInfo> WaitReady(std::uint32_t i);
  Result<void> PutPeers();

  // Posts to partition 0 and waits for the end, bringing credentials again where they are asked
  // for and bearing with a runtime that is away.
  Result<runtime::JobResult> RunJob(const runtime::JobRequest& request,
                                    std::chrono::seconds patience = std::chrono::seconds(120));
  // The sum over the partitions, fresh.
  Result<runtime::CacheInfo> Total();
  // A counter of partition i's /metrics, summed over its labels that contain `label`.
  Result<double> Metric(std::uint32_t i, const std::string& name, const std::string& label);
  // GETs of the object store by all runtimes of this moment.
  Result<double> StoreBytesRead();

  // A reader on the node of partition i: the same cache directory, asking its runtime on a miss,
  // as a mount does.
  struct Reader {
    std::unique_ptr<MetricsRegistry> metrics;
    std::unique_ptr<volume::Volume> volume;

    Result<std::string> ReadFile(const Context& ctx, const std::string& path);
    double StoreBytes() const;
  };
  Result<Reader> OpenReader(std::uint32_t i);

 private:
  struct Node {
    pid_t pid = -1;
    std::uint16_t port = 0;
    std::unique_ptr<runtime::RuntimeClient> client;
  };

  explicit RuntimeSet(RuntimeSetOptions options, TempDir dir)
      : options_(std::move(options)), dir_(std::move(dir)) {}
  Result<void> WriteSecrets();

  const RuntimeSetOptions options_;
  TempDir dir_;
  const Context ctx_ = Context::Background();
  Logger log_{LogLevel::kOff};
  net::testing::CertificateAuthority authority_;
  std::optional<Peer> redis_;
  std::optional<Peer> minio_;
  std::string meta_url_;
  std::vector<Node> nodes_;
};

// `count` files of `size` bytes each below `dir`, in folders of 50; returns their relative paths in
// byte order. The content of each follows from its path.
Result<std::vector<std::string>> MakeFiles(const std::string& dir, std::size_t count,
                                           std::size_t size);
std::string ContentOf(const std::string& path, std::size_t size);

}  // namespace paddleop::testing
