#include "standalone/node/endpoint/endpoint.h"

#include <charconv>
#include <filesystem>
#include <set>

#include "api/meta/time.h"
#include "base/crypto.h"
#include "base/posix.h"
#include "standalone/node/endpoint/exec_session.h"
#include "standalone/node/endpoint/log_reader.h"
#include "standalone/node/endpoint/spdy_exec.h"
#include "standalone/node/endpoint/web_socket_exec.h"

namespace paddleop::standalone::node {
namespace {

namespace fs = std::filesystem;
using net::ServerResponse;

constexpr std::chrono::seconds kStreamsTimeout{30};
constexpr char kFull[] =
    "too many logs and sessions are open on this node: close some, or try again later";

std::optional<std::int64_t> NumberOf(const net::ServerRequest& request, const char* name) {
  const auto text = request.Query(name);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return value;
}

bool IsSet(const net::ServerRequest& request, const char* name) {
  const auto value = request.Query(name);
  return value && (*value == "true" || *value == "1");
}

LogQuery QueryOf(const net::ServerRequest& request) {
  LogQuery query;
  query.follow = IsSet(request, "follow");
  query.timestamps = IsSet(request, "timestamps");
  query.tail_lines = NumberOf(request, "tailLines");
  query.limit_bytes = NumberOf(request, "limitBytes");
  if (const auto seconds = NumberOf(request, "sinceSeconds"))
    query.since = std::chrono::system_clock::now() - std::chrono::seconds(*seconds);
  if (const auto text = request.Query("sinceTime")) {
    if (const auto time = api::ParseMicroTime(*text)) query.since = *time;
  }
  return query;
}

// All values of a query parameter, in order.
Result<std::vector<std::string>> Words(std::string_view query, std::string_view name) {
  std::vector<std::string> out;
  while (!query.empty()) {
    const std::size_t end = query.find('&');
    const std::string_view pair = query.substr(0, end);
    const std::size_t equals = pair.find('=');
    if (pair.substr(0, equals) == name && equals != std::string_view::npos) {
      std::string text(pair.substr(equals + 1));
      for (char& c : text) c = c == '+' ? ' ' : c;
      ASSIGN_OR_RETURN(std::string word, UrlDecode(text));
      out.push_back(std::move(word));
    }
    query.remove_prefix(end == std::string_view::npos ? query.size() : end + 1);
  }
  return out;
}

// "/containerLogs/ns/pod/container" in its four parts; a name with anything but letters, digits,
// '-' and '.' is none of ours.
std::vector<std::string> PartsOf(const std::string& path) {
  std::vector<std::string> parts;
  for (const fs::path& part : fs::path(path).relative_path()) {
    const std::string text = part.string();
    if (text.empty() || text.front() == '.') return {};
    for (const char c : text) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.') return {};
    }
    parts.push_back(text);
  }
  return parts;
}

// The streams that a client of exec will use. API servers say it in other words than kubectl.
std::set<ExecStream> StreamsOf(const net::ServerRequest& request) {
  std::set<ExecStream> out{ExecStream::kError};
  const bool tty = IsSet(request, "tty");
  if (IsSet(request, "stdin") || IsSet(request, "input")) out.insert(ExecStream::kStdin);
  if (IsSet(request, "stdout") || IsSet(request, "output")) out.insert(ExecStream::kStdout);
  if (!tty && (IsSet(request, "stderr") || IsSet(request, "error")))
    out.insert(ExecStream::kStderr);
  if (tty) out.insert(ExecStream::kResize);
  return out;
}

}  // namespace

Endpoint::Endpoint(EndpointOptions options, FindPod find)
    : options_(std::move(options)),
      find_(std::move(find)),
      limit_(options_.max_sessions),
      // Whoever has a place finds room, also when many come at once.
      sessions_({.name = "sessions",
                 .threads = options_.max_sessions,
                 .queue_limit = options_.max_sessions}) {}

Result<std::unique_ptr<Endpoint>> Endpoint::Start(EndpointOptions options, FindPod find,
                                                  const Logger& log, MetricsRegistry& metrics) {
  if (!options.tls.enabled())
    return Fail(Code::kInvalid, "the endpoint of logs and exec needs a certificate");
  if (options.tls.client_ca_file.empty() && options.token.empty()) {
    return Fail(
        Code::kInvalid,
        "the endpoint of logs and exec needs a client CA or a token to know its clients by");
  }
  std::unique_ptr<Endpoint> endpoint(new Endpoint(std::move(options), std::move(find)));
  net::HttpServerOptions server;
  server.address = endpoint->options_.address;
  server.port = endpoint->options_.port;
  server.tls = endpoint->options_.tls;
  server.max_body_bytes = 1 << 20;
  server.metrics = &metrics;
  server.log = &log;
  ASSIGN_OR_RETURN(
      endpoint->server_,
      net::HttpServer::Start(server, [e = endpoint.get()](const Context&, const auto& request) {
        return e->Answer(request);
      }));
  return endpoint;
}

Endpoint::~Endpoint() { Stop(); }

void Endpoint::Stop() {
  stop_.request_stop();
  server_->Stop(std::chrono::seconds(1));
}

bool Endpoint::Admitted(const net::ServerRequest& request) const {
  if (!options_.tls.client_ca_file.empty() && !request.client_name.empty()) return true;
  if (options_.token.empty()) return false;
  const std::string wanted = "Bearer " + options_.token.Reveal();
  return ConstantTimeEquals(request.headers.Get("Authorization").value_or(""), wanted);
}

std::string Endpoint::RunDirectory(const std::string& uid, const std::string& container,
                                   bool previous) const {
  const std::string directory =
      fmt::format("{}/pods/{}/containers/{}", options_.data_dir, uid, container);
  int last = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error))
    last = std::max(last, std::atoi(entry.path().filename().c_str()));
  const int run = previous ? last - 1 : last;
  return run > 0 ? fmt::format("{}/{}", directory, run) : "";
}

ServerResponse Endpoint::Answer(const net::ServerRequest& request) {
  if (request.path == "/healthz") return ServerResponse::Text(200, "ok");
  if (!Admitted(request)) return ServerResponse::Text(401, "Unauthorized");
  const auto parts = PartsOf(request.path);
  const bool logs = parts.size() == 4 && parts[0] == "containerLogs";
  const bool exec = parts.size() == 4 && parts[0] == "exec";
  if (parts.size() == 4 && parts[0] == "attach") {
    return ServerResponse::Text(
        400, "attach is not supported: use logs -f to read and exec to run a command");
  }
  if (!logs && !exec) return ServerResponse::Text(404, "not found");
  const auto uid = find_({parts[1], parts[2]});
  if (!uid) {
    return ServerResponse::Text(404,
                                fmt::format("pod {}/{} is not on this node", parts[1], parts[2]));
  }
  return logs ? Logs(request, *uid, parts[3]) : Exec(request, *uid, parts[3]);
}

ServerResponse Endpoint::Logs(const net::ServerRequest& request, const std::string& uid,
                              const std::string& container) {
  const bool previous = IsSet(request, "previous");
  const std::string directory = RunDirectory(uid, container, previous);
  if (directory.empty()) {
    return ServerResponse::Text(
        400, previous ? fmt::format("previous terminated container \"{}\" not found", container)
                      : fmt::format("container \"{}\" is waiting to start", container));
  }
  const auto place = limit_.Take();
  if (!place) return ServerResponse::Text(503, kFull);
  ServerResponse response;
  response.headers.Set("Content-Type", "text/plain");
  response.stream = [this, directory, place,
                     query = QueryOf(request)](std::shared_ptr<net::ResponseStream> stream) {
    const bool taken = sessions_.TrySubmit([this, directory, place, query, stream] {
      std::stop_source gone;
      stream->OnClose([gone]() mutable { gone.request_stop(); });
      const std::stop_callback ends(stop_.get_token(), [&] { gone.request_stop(); });
      const Context ctx = Context::Background().WithStop(gone.get_token());
      (void)ReadLog(ctx, directory, query,
                    [&](std::string_view bytes) { return stream->Write(bytes); });
      stream->Close();
    });
    if (!taken) stream->Close();
  };
  return response;
}

ServerResponse Endpoint::Exec(const net::ServerRequest& request, const std::string& uid,
                              const std::string& container) {
  const auto spdy = AcceptSpdy(request);
  const auto headers = spdy ? spdy : AcceptWebSocket(request, kExecProtocols);
  if (!headers) {
    return ServerResponse::Text(400,
                                "exec needs a WebSocket that speaks v5.channel.k8s.io, or SPDY/3.1 "
                                "that speaks v4.channel.k8s.io");
  }
  const std::string directory = RunDirectory(uid, container, false);
  const auto state = directory.empty() ? std::nullopt : ReadState(directory);
  if (!state || !state->shim.Alive() || ReadExit(directory)) {
    return ServerResponse::Text(400, fmt::format("container \"{}\" does not run", container));
  }
  auto command = Words(request.query, "command");
  if (!command || command->empty())
    return ServerResponse::Text(400, "you must specify at least 1 command for the container");
  ExecSpec spec{.pid = state->first,
                .namespaces = options_.namespaces,
                .tty = IsSet(request, "tty"),
                .argv = *std::move(command)};
  const std::set<ExecStream> streams = StreamsOf(request);
  const auto place = limit_.Take();
  if (!place) return ServerResponse::Text(503, kFull);
  ServerResponse response;
  response.status = 101;
  response.headers = *headers;
  response.upgrade = [this, spec, place, streams, spdy = spdy.has_value()](
                         const std::shared_ptr<net::UpgradedConnection>& connection) {
    const bool taken = sessions_.TrySubmit([this, spec, place, streams, spdy, connection] {
      std::stop_source gone;
      connection->OnClose([gone]() mutable { gone.request_stop(); });
      const std::stop_callback ends(stop_.get_token(), [&] { gone.request_stop(); });
      const Context ctx = Context::Background().WithStop(gone.get_token());
      const bool input = streams.contains(ExecStream::kStdin);
      if (!spdy) {
        WebSocketExec client(connection);
        return RunExecSession(ctx, options_.program, spec, input, client);
      }
      SpdyExec client(connection);
      if (!client.WaitFor(ctx.WithTimeout(kStreamsTimeout), streams)) return connection->Close();
      RunExecSession(ctx, options_.program, spec, input, client);
    });
    if (!taken) connection->Close();
  };
  return response;
}

}  // namespace paddleop::standalone::node
