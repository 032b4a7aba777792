#include "volume/peer/local_peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <memory>

#include "base/mutex.h"
#include "base/posix.h"
#include "net/http_client.h"
#include "runtime/protocol/status.h"
#include "volume/peer/block_wire.h"

namespace paddleop::volume {
namespace {

constexpr std::chrono::seconds kLookAgain{1};

// Thread-safe.
class LocalPeer {
 public:
  LocalPeer(std::vector<std::string> directories, std::string uuid)
      : directories_(std::move(directories)), uuid_(std::move(uuid)) {}

  Result<void> Read(const Context& ctx, const BlockId& block, std::uint32_t offset,
                    std::span<std::byte> out) {
    ASSIGN_OR_RETURN(const auto connection, Connect());
    std::size_t received = 0;
    auto response = connection->http->DoInto(
        ctx,
        {.url = fmt::format("http://runtime{}{}?offset={}&size={}", kBlocksPath, BlockName(block),
                            offset, out.size())},
        out, &received);
    if (!response) {
      Forget(connection);
      return std::unexpected(std::move(response).error().Wrap("ask the runtime of this node"));
    }
    if (response->status / 100 != 2) {
      return std::unexpected(runtime::ErrorFromBody(response->status, response->body));
    }
    if (received != out.size()) {
      return Fail(Code::kUnavailable, "the runtime sent {} bytes instead of {}", received,
                  out.size());
    }
    return {};
  }

 private:
  struct Connection {
    UniqueFd directory;  // the socket is reached through it: its name may be too long otherwise
    std::unique_ptr<net::HttpClient> http;
  };

  Result<std::shared_ptr<Connection>> Connect() {
    MutexLock lock(mutex_);
    if (connection_) return connection_;
    const auto now = std::chrono::steady_clock::now();
    if (now - looked_ < kLookAgain) return Fail(Code::kUnavailable, "no runtime on this node");
    looked_ = now;
    for (const std::string& directory : directories_) {
      const std::string state = RuntimeStateDir(directory, uuid_);
      struct stat st{};
      if (::stat((state + "/" + std::string(kBlockSocketName)).c_str(), &st) != 0 ||
          !S_ISSOCK(st.st_mode)) {
        continue;
      }
      auto connection = std::make_shared<Connection>();
      ASSIGN_OR_RETURN(connection->directory, OpenFile(state, O_PATH | O_DIRECTORY | O_CLOEXEC));
      ASSIGN_OR_RETURN(
          connection->http,
          net::HttpClient::Create(
              {.unix_socket = fmt::format("/proc/self/fd/{}/{}", connection->directory.get(),
                                          kBlockSocketName),
               .user_agent = "samplefs",
               .connect_timeout = std::chrono::milliseconds(1'000)}));
      connection_ = std::move(connection);
      return connection_;
    }
    return Fail(Code::kUnavailable, "no runtime on this node");
  }

  void Forget(const std::shared_ptr<Connection>& broken) {
    MutexLock lock(mutex_);
    if (connection_ != broken) return;
    connection_.reset();
    looked_ = std::chrono::steady_clock::now();
  }

  const std::vector<std::string> directories_;
  const std::string uuid_;
  Mutex mutex_;
  std::shared_ptr<Connection> connection_ GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point looked_ GUARDED_BY(mutex_);
};

}  // namespace

std::string RuntimeStateDir(std::string_view cache_directory, std::string_view uuid) {
  while (cache_directory.size() > 1 && cache_directory.ends_with('/')) {
    cache_directory.remove_suffix(1);
  }
  return fmt::format("{}/.samplefs-runtime/{}", cache_directory, uuid);
}

BlockPeer MakeLocalPeer(std::vector<std::string> directories, std::string uuid) {
  auto peer = std::make_shared<LocalPeer>(std::move(directories), std::move(uuid));
  return [peer](const Context& ctx, const BlockId& block, std::uint32_t offset,
                std::span<std::byte> out) { return peer->Read(ctx, block, offset, out); };
}

}  // namespace paddleop::volume
