#include "fuse/control.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>

#include "base/posix.h"
#include "fuse/mount_table.h"
#include "net/http_client.h"
#include "net/http_server.h"

namespace paddleop::fuse {
namespace {

using net::HttpServer;
using net::ServerRequest;
using net::ServerResponse;

std::string ErrorJson(const Status& error) {
  std::string out = "{\"error\":";
  AppendJsonString(out, error.message());
  out += "}";
  return out;
}

class Server final : public ControlServer {
 public:
  ~Server() override {
    if (server_) server_->Stop(std::chrono::milliseconds(500));
  }

  Result<void> Listen(net::HttpServerOptions options, HttpServer::Handler handler) {
    options.io_threads = 1;
    options.handler_threads = 2;
    options.max_connections = 64;
    options.max_body_bytes = 64 << 10;
    ASSIGN_OR_RETURN(server_, HttpServer::Start(std::move(options), std::move(handler)));
    return {};
  }

 private:
  std::unique_ptr<HttpServer> server_;
};

ServerResponse MetricsResponse(OpStats& stats, MetricsRegistry& metrics) {
  stats.Publish();
  return ServerResponse::Text(200, metrics.Serialize());
}

ServerResponse Answer(const Context& ctx, const ServerRequest& request, const ControlHooks& hooks,
                      OpStats& stats, MetricsRegistry& metrics) {
  const bool get = request.method == "GET";
  if (get && request.path == "/status") return ServerResponse::Json(200, hooks.status());
  if (get && request.path == "/metrics") return MetricsResponse(stats, metrics);
  if (get && request.path == "/volume") {
    std::string body = "{\"metaUrl\":";
    AppendJsonString(body, hooks.meta_url);
    return ServerResponse::Json(200, body + "}");
  }
  if (get && request.path == "/accesslog") {
    ServerResponse response;
    response.headers.Set("Content-Type", "text/plain; charset=utf-8");
    response.stream = [&stats](std::shared_ptr<net::ResponseStream> stream) {
      stats.Follow(std::move(stream));
    };
    return response;
  }
  if (request.method == "POST" && request.path == "/refresh") {
    if (!hooks.refresh) {
      return ServerResponse::Json(
          409, ErrorJson(Status(Code::kInvalid,
                                "only mounts with --read-only have a state to refresh; this one "
                                "always asks the volume")));
    }
    auto refreshed = hooks.refresh(ctx);
    if (!refreshed) return ServerResponse::Json(503, ErrorJson(refreshed.error()));
    return ServerResponse::Json(200, *refreshed);
  }
  return ServerResponse::Json(404, ErrorJson(Status(Code::kNotFound, "no such control")));
}

std::string RuntimeDirectory() {
  if (::geteuid() == 0) return "/run/samplefs";
  const std::string base = GetEnv("XDG_RUNTIME_DIR");
  return (base.empty() ? fmt::format("/tmp/samplefs-{}", ::geteuid()) : base + "/samplefs");
}

// Others must not be able to put their sockets in the place of ours: below /tmp they could.
Result<void> CheckRuntimeDirectory() {
  const std::string path = RuntimeDirectory();
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) return ErrnoFail("{}", path);
  if (S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 022) == 0) return {};
  return Fail(Code::kPermission,
              "{} is not a directory that only this user can write to; remove it, or set "
              "XDG_RUNTIME_DIR",
              path);
}

// The error inside a reply that is not 2xx.
Status ReplyError(const net::HttpResponse& reply) {
  std::string message = reply.body;
  constexpr std::string_view kBegin = R"({"error":")";
  if (message.starts_with(kBegin) && message.ends_with(R"("})"))
    message = message.substr(kBegin.size(), message.size() - kBegin.size() - 2);
  const Code code = reply.status == 409 ? Code::kInvalid : Code::kUnavailable;
  return Status(code, message);
}

Result<std::string> SocketOf(const std::string& mount_point) {
  ASSIGN_OR_RETURN(const std::string directory, CanonicalDirectory(mount_point));
  ASSIGN_OR_RETURN(const auto mount, FindMount(directory));
  if (!mount || mount->type != kFileSystemType)
    return Fail(Code::kNotFound, "{} is no mount point of samplefs", mount_point);
  std::string path = ControlSocketPath(mount->minor);
  if (::access(RuntimeDirectory().c_str(), F_OK) == 0) RETURN_IF_ERROR(CheckRuntimeDirectory());
  if (::access(path.c_str(), R_OK | W_OK) != 0) {
    if (errno == EACCES) {
      return Fail(Code::kPermission,
                  "{}: only root and the user who mounted it may ask its process", mount_point);
    }
    if (::geteuid() != 0) {
      return Fail(Code::kUnavailable,
                  "{}: no mount process of this user answers for it; ask as root or as who mounted "
                  "it, and if the process has died, 'samplefs umount' takes the mount away",
                  mount_point);
    }
    return Fail(Code::kUnavailable,
                "the process behind {} is gone; unmount it with 'samplefs umount'", mount_point);
  }
  return path;
}

Result<std::unique_ptr<net::HttpClient>> Connect(const std::string& mount_point) {
  ASSIGN_OR_RETURN(const std::string path, SocketOf(mount_point));
  return net::HttpClient::Create(
      {.unix_socket = path, .stall_timeout = std::chrono::milliseconds(0)});
}

}  // namespace

std::string ControlSocketPath(unsigned device_minor) {
  return fmt::format("{}/{}.sock", RuntimeDirectory(), device_minor);
}

Result<std::unique_ptr<ControlServer>> ControlServer::Start(const std::string& socket_path,
                                                            ControlHooks hooks, OpStats& stats,
                                                            MetricsRegistry& metrics,
                                                            const Logger& log) {
  RETURN_IF_ERROR(MakeDirectories(RuntimeDirectory(), 0700));
  RETURN_IF_ERROR(CheckRuntimeDirectory());
  // The device number is ours now: whoever left this socket is dead, or about to end.
  ::unlink(socket_path.c_str());
  auto server = std::make_unique<Server>();
  RETURN_IF_ERROR(server->Listen({.unix_socket = socket_path, .log = &log},
                                 [hooks = std::move(hooks), &stats, &metrics](
                                     const Context& ctx, const ServerRequest& request) {
                                   return Answer(ctx, request, hooks, stats, metrics);
                                 }));
  return std::unique_ptr<ControlServer>(std::move(server));
}

Result<std::unique_ptr<ControlServer>> StartMetricsServer(const std::string& address,
                                                          OpStats& stats, MetricsRegistry& metrics,
                                                          const Logger& log) {
  const auto colon = address.rfind(':');
  std::uint16_t port = 0;
  const char* const end = address.data() + address.size();
  if (colon == std::string::npos ||
      std::from_chars(address.data() + colon + 1, end, port).ptr != end ||
      colon + 1 == address.size())
    return Fail(Code::kInvalid, "--metrics is \"{}\"; give HOST:PORT or :PORT", address);
  const std::string host = colon == 0 ? "0.0.0.0" : address.substr(0, colon);
  auto server = std::make_unique<Server>();
  RETURN_IF_ERROR(server->Listen({.address = host, .port = port, .log = &log},
                                 [&stats, &metrics](const Context&, const ServerRequest& request) {
                                   if (request.path == "/metrics")
                                     return MetricsResponse(stats, metrics);
                                   if (request.path == "/healthz" || request.path == "/readyz")
                                     return ServerResponse::Text(200, "ok\n");
                                   return ServerResponse::Text(404, "try /metrics\n");
                                 }));
  return std::unique_ptr<ControlServer>(std::move(server));
}

Result<pid_t> FindMountProcess(const std::string& mount_point) {
  ASSIGN_OR_RETURN(const std::string path, SocketOf(mount_point));
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof address.sun_path)
    return Fail(Code::kNameTooLong, "socket path {}", path);
  path.copy(address.sun_path, path.size());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return ErrnoFail("socket");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Fail(Code::kUnavailable, "the process behind {} is gone", mount_point);
  }
  // Whoever listens is known without an answer.
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return ErrnoFail("SO_PEERCRED");
  if (peer.pid <= 0) {
    return Fail(Code::kNotSupported, "the process behind {} lives in another PID namespace",
                mount_point);
  }
  return peer.pid;
}

Result<std::string> CallMount(const Context& ctx, const std::string& mount_point,
                              const std::string& method, const std::string& path) {
  ASSIGN_OR_RETURN(const auto client, Connect(mount_point));
  auto reply = client->Do(ctx, {.method = method, .url = "http://mount" + path});
  if (!reply)
    return std::unexpected(std::move(reply).error().Wrap("the process behind " + mount_point));
  if (reply->status != 200) return std::unexpected(ReplyError(*reply));
  return std::move(reply->body);
}

Result<void> StreamMount(const Context& ctx, const std::string& mount_point,
                         const std::string& path,
                         const std::function<Result<void>(std::string_view)>& sink) {
  ASSIGN_OR_RETURN(const auto client, Connect(mount_point));
  auto reply = client->Stream(ctx.WithTimeout(std::chrono::hours(24 * 365)),
                              {.url = "http://mount" + path}, sink);
  if (!reply)
    return std::unexpected(std::move(reply).error().Wrap("the process behind " + mount_point));
  if (reply->status != 200) return std::unexpected(ReplyError(*reply));
  return {};
}

}  // namespace paddleop::fuse
