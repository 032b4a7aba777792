#include "runtime/server/server.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "base/posix.h"
#include "base/thread_pool.h"

namespace paddleop::runtime {
namespace {

// The partitions of the set as places for parts of jobs.
class RemoteTarget : public PartTarget {
 public:
  explicit RemoteTarget(std::shared_ptr<RuntimeClient> client) : client_(std::move(client)) {}
  Result<JobResult> Post(const Context& ctx, const JobRequest& request) override {
    return client_->Post(ctx, request);
  }
  Result<JobResult> Get(const Context& ctx, JobKind kind, const std::string& name) override {
    return client_->GetResult(ctx, kind, name);
  }
  Result<JobResult> Cancel(const Context& ctx, const std::string& name) override {
    return client_->Cancel(ctx, name);
  }

 private:
  const std::shared_ptr<RuntimeClient> client_;
};

class OwnTarget : public PartTarget {
 public:
  explicit OwnTarget(JobQueue& jobs) : jobs_(jobs) {}
  Result<JobResult> Post(const Context& /*ctx*/, const JobRequest& request) override {
    return jobs_.Post(request);
  }
  Result<JobResult> Get(const Context& /*ctx*/, JobKind kind, const std::string& name) override {
    return jobs_.Get(kind, name);
  }
  Result<JobResult> Cancel(const Context& /*ctx*/, const std::string& name) override {
    return jobs_.Cancel(name);
  }

 private:
  JobQueue& jobs_;
};

// What an open runtime owns, in the order of its making; destroyed in reverse.
struct OwnedServing : Serving {
  std::shared_ptr<Engine> owned_engine;
  std::shared_ptr<PeerDirectory> owned_peers;
  std::unique_ptr<SpreadRunner> spread;

  ~OwnedServing() {
    if (jobs) jobs->Stop();
    jobs.reset();
  }
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(ServerOptions options, const Logger& log,
                                              MetricsRegistry& metrics) {
  std::unique_ptr<Server> server(new Server(std::move(options), log, metrics));
  Server& self = *server;
  const auto file = [&](std::string_view name) {
    return self.options_.auth_dir + "/" + std::string(name);
  };
  ASSIGN_OR_RETURN(self.tokens_, TokenStore::Open(file(kTokenFile), log));
  for (const std::string_view name : {kCaFile, kCertificateFile, kKeyFile}) {
    if (::access(file(name).c_str(), R_OK) != 0) return ErrnoFail("{}", file(name));
  }
  self.api_ = std::make_unique<Api>(ApiParts{
      .index = self.options_.index,
      .tokens = self.tokens_.get(),
      .log = &log,
      .metrics = &metrics,
      .serving = [&self] { return self.Current(); },
      .purge = [&self](const Context& ctx) { return self.Purge(ctx); },
  });
  ASSIGN_OR_RETURN(self.http_,
                   net::HttpServer::Start(
                       {.address = self.options_.address,
                        .port = self.options_.port,
                        .tls = {.cert_file = file(kCertificateFile), .key_file = file(kKeyFile)},
                        .handler_threads = self.options_.handler_threads,
                        .max_body_bytes = self.options_.max_body_bytes,
                        .metrics = &metrics,
                        .log = &log},
                       [&self](const Context& ctx, const net::ServerRequest& request) {
                         return self.api_->Handle(ctx, request);
                       }));
  self.opener_ = std::jthread([&self](const std::stop_token& stop) { self.KeepOpen(stop); });
  return server;
}

Server::~Server() { Stop(); }

void Server::Stop() {
  if (opener_.joinable()) {
    opener_.request_stop();
    opener_.join();
  }
  Close("stopping");
  if (http_) http_->Stop(std::chrono::seconds(2));
}

std::shared_ptr<Serving> Server::Close(std::string why) {
  std::shared_ptr<Serving> serving;
  std::unique_ptr<net::HttpServer> local;
  {
    MutexLock lock(mutex_);
    serving = std::move(serving_);
    local = std::move(local_);
    why_not_ = std::move(why);
  }
  if (serving) serving->jobs->Stop();
  if (local) local->Stop(std::chrono::seconds(1));
  return serving;
}

std::pair<std::shared_ptr<Serving>, std::string> Server::Current() const {
  MutexLock lock(mutex_);
  return {serving_, serving_ ? "" : why_not_};
}

void Server::KeepOpen(const std::stop_token& stop) {
  SetThreadName("open-volume");
  const Context ctx = Context::Background().WithStop(stop);
  while (OpenUntilDone(ctx)) {
    const auto intact = [this] {
      const auto serving = Current().first;
      return !serving || serving->engine->Intact();
    };
    while (intact()) {
      if (!Clock::System().SleepFor(ctx, options_.look_interval)) return;
    }
    // The journal and the mounts' socket are gone with it. Whoever posted a job finds that nobody
    // knows it, and posts it again.
    log_.Warn(ctx, "somebody emptied the cache directory; the runtime begins anew");
    Close("the cache directory was emptied");
  }
}

// False: not any more.
bool Server::OpenUntilDone(const Context& ctx) {
  Backoff backoff(options_.open_backoff);
  std::string last;
  while (!ctx.Stopped()) {
    auto opened = OpenOnce(ctx);
    if (opened) {
      log_.Info(ctx, "volume open, jobs are taken");
      return true;
    }
    if (ctx.Stopped()) return false;
    const std::string why = opened.error().message();
    if (why != last) log_.Warn(ctx, "volume not open yet", {{"error", why}});
    last = why;
    {
      MutexLock lock(mutex_);
      if (purged_) return false;
      why_not_ = why;
    }
    if (!backoff.Sleep(ctx)) return false;
  }
  return false;
}

Result<void> Server::OpenOnce(const Context& ctx) {
  auto serving = std::make_shared<OwnedServing>();
  ASSIGN_OR_RETURN(serving->owned_engine, options_.open(ctx));
  serving->engine = serving->owned_engine;
  Engine& engine = *serving->engine;
  const std::string state = engine.state_dir();
  RETURN_IF_ERROR(MakeDirectories(state, 0700));
  ASSIGN_OR_RETURN(serving->owned_peers,
                   PeerDirectory::Open({.self = options_.index,
                                        .file = state + "/peers.json",
                                        .ca_file = options_.auth_dir + "/" + std::string(kCaFile),
                                        .token = [this] { return tokens_->Current(); },
                                        .previous_token = [this] { return tokens_->Previous(); }}));
  serving->peers = serving->owned_peers;
  PeerDirectory& peers = *serving->peers;
  RETURN_IF_ERROR(engine.Start(ctx, peers));
  OwnedServing* const owned = serving.get();
  serving->spread = std::make_unique<SpreadRunner>(
      SpreadOptions{
          .width = [&engine, &peers](
                       const JobRequest& request) { return engine.Width(request, peers.count()); },
          .target = [owned, &peers](std::uint32_t index) -> Result<std::shared_ptr<PartTarget>> {
            if (index == peers.self()) return std::make_shared<OwnTarget>(*owned->jobs);
            ASSIGN_OR_RETURN(auto client, peers.Client(index));
            return std::make_shared<RemoteTarget>(std::move(client));
          },
          .ended = [&engine] { engine.JobEnded(); },
          .patience = options_.peer_patience,
      },
      log_);
  ASSIGN_OR_RETURN(serving->jobs, JobQueue::Open({.directory = state + "/jobs"}, *serving->spread,
                                                 engine.parts(), log_, metrics_));
  std::unique_ptr<net::HttpServer> local;
  if (!engine.socket_path().empty()) RETURN_IF_ERROR(ServeLocally(engine.socket_path(), &local));
  {
    MutexLock lock(mutex_);
    if (purged_) return Fail(Code::kCancelled, "purged");
    serving_ = serving;
    local_ = std::move(local);
    why_not_.clear();
  }
  serving->jobs->Start();
  return {};
}

Result<void> Server::ServeLocally(const std::string& path, std::unique_ptr<net::HttpServer>* out) {
  // The kernel allows 107 bytes for the name of a socket; through the directory's descriptor it is
  // always short enough.
  const std::filesystem::path file(path);
  ASSIGN_OR_RETURN(socket_dir_,
                   OpenFile(file.parent_path().string(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  auto server =
      net::HttpServer::Start({.unix_socket = fmt::format("/proc/self/fd/{}/{}", socket_dir_.get(),
                                                         file.filename().string()),
                              .handler_threads = options_.handler_threads,
                              .log = &log_},
                             [this](const Context& ctx, const net::ServerRequest& request) {
                               return api_->HandleLocal(ctx, request);
                             });
  if (!server) return std::unexpected(std::move(server).error().Wrap(path));
  *out = *std::move(server);
  return {};
}

Result<void> Server::Purge(const Context& ctx) {
  MutexLock one_at_a_time(purge_mutex_);
  {
    MutexLock lock(mutex_);
    if (purged_) return {};
    // What lies in the directories is found by the volume's id.
    if (!serving_ && !purging_)
      return Fail(Code::kUnavailable, "the volume is not open: {}", why_not_);
  }
  if (const auto serving = Current().first) serving->jobs->CancelAll();
  if (auto serving = Close("purged: the set is being deleted")) purging_ = std::move(serving);
  if (!purging_) return Fail(Code::kUnavailable, "the volume is being opened again");
  RETURN_IF_ERROR(purging_->engine->Purge(ctx));
  std::error_code error;
  const std::string state = purging_->engine->state_dir();
  std::filesystem::remove_all(state, error);
  if (error) return std::unexpected(ErrnoStatus(error.value(), "remove " + state));
  purging_.reset();
  MutexLock lock(mutex_);
  purged_ = true;
  log_.Info(ctx, "everything of the set removed from this node");
  return {};
}

}  // namespace paddleop::runtime
