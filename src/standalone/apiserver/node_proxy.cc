#include "standalone/apiserver/node_proxy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/crypto.h"
#include "net/stream.h"
#include "standalone/apiserver/internal/json_path.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

constexpr std::chrono::seconds kConnectTimeout{10};
constexpr std::chrono::hours kLongest{24};
constexpr std::size_t kMaxHead = 64u << 10;
constexpr std::size_t kMaxSessions = 32;

Refusal NodeFailed(const Status& status) {
  return Refusal(ApiError{502,
                          "InternalError",
                          fmt::format("the node does not answer: {}", status.message()),
                          "",
                          "",
                          "",
                          {}});
}

Refusal Busy() {
  return Refusal(ApiError{429,
                          "TooManyRequests",
                          "too many logs and sessions are open: close some, or try again later",
                          "",
                          "",
                          "",
                          {}});
}

net::ClientTls NodeTls() {
  // A node makes its certificate itself; like kube-apiserver's default, it is not looked at.
  net::ClientTls tls;
  tls.insecure_skip_verify = true;
  return tls;
}

// Status, headers and what came after them.
struct Head {
  int status = 0;
  net::HttpHeaders headers;
  std::string rest;
};

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

Result<Head> ReadHead(const Context& ctx, net::Stream& stream) {
  std::string text;
  std::size_t end = std::string::npos;
  std::array<char, 4096> buffer{};
  while ((end = text.find("\r\n\r\n")) == std::string::npos) {
    if (text.size() > kMaxHead) return Fail(Code::kInvalid, "its answer has too large a header");
    ASSIGN_OR_RETURN(const std::size_t n, stream.Read(ctx, buffer));
    if (n == 0) return Fail(Code::kUnavailable, "it closed the connection");
    text.append(buffer.data(), n);
  }
  Head head;
  head.rest = text.substr(end + 4);
  std::string_view lines = std::string_view(text).substr(0, end);
  const auto space = lines.find(' ');
  if (!lines.starts_with("HTTP/1.1 ") ||
      std::from_chars(lines.data() + space + 1, lines.data() + std::min(lines.size(), space + 4),
                      head.status)
              .ec != std::errc()) {
    return Fail(Code::kInvalid, "its answer is no HTTP");
  }
  auto line_end = lines.find("\r\n");
  while (line_end != std::string_view::npos) {
    lines.remove_prefix(line_end + 2);
    line_end = lines.find("\r\n");
    const std::string_view line = lines.substr(0, line_end);
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    head.headers.Add(std::string(Trim(line.substr(0, colon))),
                     std::string(Trim(line.substr(colon + 1))));
  }
  return head;
}

std::string Lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// What client and node agree on before they speak another protocol than HTTP.
bool IsSessionHeader(std::string_view name) {
  const std::string lower = Lower(name);
  return lower.starts_with("sec-websocket-") || lower == "x-stream-protocol-version";
}

bool HasLineBreak(std::string_view text) {
  return text.find_first_of("\r\n") != std::string_view::npos;
}

}  // namespace

// The logs of one container on their way to one client.
struct NodeProxy::LogCopy {
  Mutex mutex;
  CondVar changed;
  bool answered GUARDED_BY(mutex) = false;  // the node's headers, or its refusal, are here
  std::optional<net::HttpResponse> refused GUARDED_BY(mutex);
  std::optional<Status> failed GUARDED_BY(mutex);
  std::string type GUARDED_BY(mutex);
  std::shared_ptr<net::ResponseStream> stream GUARDED_BY(mutex);
  bool dropped GUARDED_BY(mutex) = false;  // nobody will ever give us a stream
  std::stop_source stop;

  void Headers(const net::HttpResponse& response) {
    MutexLock lock(mutex);
    if (response.status / 100 != 2) return;  // the body says more; it comes with the result
    answered = true;
    type = std::string(response.headers.Get("content-type").value_or("text/plain"));
    changed.notify_all();
  }

  Result<void> Piece(std::string_view bytes) {
    std::shared_ptr<net::ResponseStream> out;
    {
      MutexLock lock(mutex);
      changed.wait(lock, stop.get_token(),
                   [&]() REQUIRES(mutex) { return stream != nullptr || dropped; });
      out = stream;
    }
    if (out == nullptr) return Fail(Code::kCancelled, "the client has gone");
    return out->Write(bytes);
  }

  void End(Result<net::HttpResponse> result) {
    std::shared_ptr<net::ResponseStream> out;
    {
      MutexLock lock(mutex);
      if (!answered && !result) failed = result.error();
      if (!answered && result) refused = *std::move(result);
      answered = true;
      changed.notify_all();
      // A short log may be over before the client's stream is there.
      changed.wait(lock, stop.get_token(), [&]() REQUIRES(mutex) {
        return refused || failed || stream != nullptr || dropped;
      });
      out = std::move(stream);
    }
    if (out != nullptr) out->Close();
  }
};

NodeProxy::NodeProxy(Store& store, Secret token, std::unique_ptr<net::HttpClient> client)
    : store_(store),
      token_(std::move(token)),
      client_(std::move(client)),
      limit_(kMaxSessions),
      // Two for each session, one for each direction.
      pool_({.name = "node-proxy", .threads = 2 * kMaxSessions, .queue_limit = 2 * kMaxSessions}) {}

Result<std::unique_ptr<NodeProxy>> NodeProxy::Create(Store& store, Secret token) {
  net::HttpClientOptions options;
  options.tls = NodeTls();
  options.connect_timeout = kConnectTimeout;
  options.stall_timeout = std::chrono::milliseconds(0);  // a log that is followed may be silent
  options.default_timeout = kLongest;
  ASSIGN_OR_RETURN(auto client, net::HttpClient::Create(std::move(options)));
  return std::unique_ptr<NodeProxy>(new NodeProxy(store, std::move(token), std::move(client)));
}

NodeProxy::~NodeProxy() { Stop(); }

void NodeProxy::Stop() { stop_.request_stop(); }

Answer<NodeProxy::Target> NodeProxy::Find(const StoredObject& pod,
                                          const std::string& container) const {
  const Json json = Json::parse(pod.json);
  Target out;
  out.container = container;
  std::vector<std::string> names;
  for (const char* list : {"initContainers", "containers"}) {
    for (const Json& entry : ListAt(json, std::string("spec.") + list)) {
      names.push_back(TextAt(entry, "name"));
    }
  }
  if (container.empty()) {
    out.container = TextAt(json, "metadata.annotations.kubectl.kubernetes.io/default-container");
    const Json& containers = ListAt(json, "spec.containers");
    if (containers.size() == 1) out.container = TextAt(containers[0], "name");
    if (out.container.empty()) {
      return BadRequest(
          fmt::format("a container name must be specified for pod {}, choose one of: [{}]",
                      pod.name, fmt::join(names, " ")));
    }
  }
  if (std::find(names.begin(), names.end(), out.container) == names.end()) {
    return BadRequest(fmt::format("container {} is not valid for pod {}", out.container, pod.name));
  }
  const std::string node_name = TextAt(json, "spec.nodeName");
  if (node_name.empty()) return out;
  const ObjectPtr node = store_.Get(CoreKind("Node"), {"", node_name});
  if (node == nullptr) return NotFound(CoreKind("Node"), node_name);
  const Json status = Json::parse(node->json);
  for (const char* type : {"InternalIP", "Hostname"}) {
    for (const Json& address : ListAt(status, "status.addresses")) {
      if (out.host.empty() && TextAt(address, "type") == type)
        out.host = TextAt(address, "address");
    }
  }
  out.port =
      static_cast<std::uint16_t>(NumberAt(status, "status.daemonEndpoints.kubeletEndpoint.Port"));
  if (out.host.empty() || out.port == 0) {
    return Refusal(ApiError{503,
                            "ServiceUnavailable",
                            fmt::format("node {} does not say where its agent listens", node_name),
                            "",
                            "",
                            "",
                            {}});
  }
  return out;
}

Answer<net::ServerResponse> NodeProxy::Logs(const Context& ctx, const net::ServerRequest& request,
                                            const StoredObject& pod) {
  if (request.method != "GET") return MethodNotAllowed();
  ASSIGN_OR_RETURN(const Target target, Find(pod, request.Query("container").value_or("")));
  if (target.host.empty()) return net::ServerResponse::Text(200, "");  // nothing written yet
  const auto place = limit_.Take();
  if (!place) return Busy();
  net::HttpRequest upstream;
  upstream.url =
      fmt::format("https://{}:{}/containerLogs/{}/{}/{}{}{}",
                  target.host.contains(':') ? "[" + target.host + "]" : target.host, target.port,
                  UrlEncode(pod.ns), UrlEncode(pod.name), UrlEncode(target.container),
                  request.query.empty() ? "" : "?", request.query);
  upstream.headers.Set("Authorization", "Bearer " + token_.Reveal());
  auto copy = std::make_shared<LogCopy>();
  const bool queued = pool_.TrySubmit([this, copy, place, upstream] {
    const std::stop_callback ends(stop_.get_token(), [&] { copy->stop.request_stop(); });
    const Context task =
        Context::Background().WithStop(copy->stop.get_token()).WithTimeout(kLongest);
    copy->End(client_->Stream(
        task, upstream, [&](std::string_view bytes) { return copy->Piece(bytes); },
        [&](const net::HttpResponse& response) { copy->Headers(response); }));
  });
  if (!queued) return Busy();
  MutexLock lock(copy->mutex);
  copy->changed.wait_for(lock, ctx.stop(), std::chrono::seconds(30),
                         [&]() REQUIRES(copy->mutex) { return copy->answered; });
  if (copy->refused) {
    ApiError error{copy->refused->status, "", copy->refused->body, pod.name, "", "pods", {}};
    error.reason = error.code == 404   ? "NotFound"
                   : error.code == 400 ? "BadRequest"
                                       : "InternalError";
    return Refusal(std::move(error));
  }
  if (copy->failed || !copy->answered) {
    copy->dropped = true;
    copy->stop.request_stop();
    return NodeFailed(copy->failed.value_or(Status(Code::kDeadline, "no answer within 30 s")));
  }
  net::ServerResponse response;
  response.headers.Set("Content-Type", copy->type);
  response.stream = [copy](std::shared_ptr<net::ResponseStream> stream) {
    stream->OnClose([copy] { copy->stop.request_stop(); });
    MutexLock inner(copy->mutex);
    copy->stream = std::move(stream);
    copy->changed.notify_all();
  };
  return response;
}

// The two directions of one upgraded connection.
struct NodeProxy::Relay {
  std::unique_ptr<net::Stream> node;
  std::shared_ptr<net::UpgradedConnection> client;
  std::string first;  // what the node sent right after its headers
  std::shared_ptr<const void> place;
  std::stop_source stop;

  void ToClient() {
    const Context ctx = Context::Background().WithStop(stop.get_token()).WithTimeout(kLongest);
    std::array<char, 16384> buffer{};
    bool open = first.empty() || client->Write(first).has_value();
    while (open) {
      const auto n = node->Read(ctx, buffer);
      open = n && *n > 0 && client->Write({buffer.data(), *n}).has_value();
    }
    stop.request_stop();
    client->Close();
  }

  void ToNode() {
    const Context ctx = Context::Background().WithStop(stop.get_token()).WithTimeout(kLongest);
    std::array<char, 16384> buffer{};
    while (true) {
      const auto n = client->Read(ctx, buffer);
      if (!n || *n == 0 || !node->WriteAll(ctx, {buffer.data(), *n})) break;
    }
    stop.request_stop();
    node->Shutdown();
  }
};

Answer<net::ServerResponse> NodeProxy::Exec(const Context& ctx, const net::ServerRequest& request,
                                            const StoredObject& pod, const std::string& verb) {
  const std::string upgrade = Lower(request.headers.Get("upgrade").value_or(""));
  if (upgrade != "websocket" && upgrade != "spdy/3.1") {
    return BadRequest("exec and attach need a WebSocket or SPDY/3.1");
  }
  ASSIGN_OR_RETURN(const Target target, Find(pod, request.Query("container").value_or("")));
  if (target.host.empty()) {
    return BadRequest(fmt::format("pod {} does not have a host assigned", pod.name));
  }
  const auto place = limit_.Take();
  if (!place) return Busy();
  net::DialOptions dial;
  dial.host = target.host;
  dial.port = target.port;
  dial.use_tls = true;
  dial.tls = NodeTls();
  auto stream = net::Dial(ctx, dial);
  if (!stream) return NodeFailed(stream.error());
  std::string text = fmt::format(
      "{} /{}/{}/{}/{}?{} HTTP/1.1\r\nHost: {}:{}\r\nConnection: Upgrade\r\nUpgrade: {}\r\n"
      "Authorization: Bearer {}\r\n",
      upgrade == "websocket" ? "GET" : "POST", verb, UrlEncode(pod.ns), UrlEncode(pod.name),
      UrlEncode(target.container), request.query, target.host, target.port,
      upgrade == "websocket" ? "websocket" : "SPDY/3.1", token_.Reveal());
  for (const auto& [name, value] : request.headers) {
    if (IsSessionHeader(name) && !HasLineBreak(value))
      text += fmt::format("{}: {}\r\n", name, value);
  }
  if (upgrade != "websocket") text += "Content-Length: 0\r\n";
  text += "\r\n";
  const Context hello = ctx.WithTimeout(kConnectTimeout);
  if (auto sent = (*stream)->WriteAll(hello, text); !sent) return NodeFailed(sent.error());
  auto head = ReadHead(hello, **stream);
  if (!head) return NodeFailed(head.error());
  if (head->status != 101) {
    return Refusal(ApiError{head->status,
                            head->status == 404 ? "NotFound" : "BadRequest",
                            head->rest.empty() ? "the node refuses the session" : head->rest,
                            pod.name,
                            "",
                            "pods",
                            {}});
  }
  auto relay = std::make_shared<Relay>();
  relay->node = *std::move(stream);
  relay->first = std::move(head->rest);
  net::ServerResponse response;
  response.status = 101;
  response.headers.Set("Connection", "Upgrade");
  for (const char* name :
       {"Upgrade", "Sec-WebSocket-Accept", "Sec-WebSocket-Protocol", "X-Stream-Protocol-Version"}) {
    if (const auto value = head->headers.Get(name)) response.headers.Set(name, std::string(*value));
  }
  relay->place = place;
  response.upgrade = [this, relay](std::shared_ptr<net::UpgradedConnection> client) {
    relay->client = std::move(client);
    relay->client->OnClose([relay = std::weak_ptr(relay)] {
      if (const auto open = relay.lock()) open->stop.request_stop();
    });
    const bool both =
        pool_.TrySubmit([relay] { relay->ToNode(); }) && pool_.TrySubmit([this, relay] {
          const std::stop_callback ends(stop_.get_token(), [&] { relay->stop.request_stop(); });
          relay->ToClient();
        });
    if (!both) {
      relay->stop.request_stop();
      relay->client->Close();
    }
  };
  return response;
}

}  // namespace paddleop::standalone::apiserver
