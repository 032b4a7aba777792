#include "kube/client/exec_plugin.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "api/meta/time.h"
#include "base/posix.h"
#include "kube/wire/patch.h"

extern char** environ;

namespace paddleop::kube {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kOutputLimit = 1 << 20;

// A child process and all it started: they do not outlive this object.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(-pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // True if it has ended, with its wait status.
  bool Ended(int& status) {
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
    pid_ = -1;
    return true;
  }

 private:
  pid_t pid_;
};

std::vector<std::string> Environment(const ExecPlugin& plugin) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    if (name != "KUBERNETES_EXEC_INFO" && !plugin.env.contains(name)) out.emplace_back(text);
  }
  for (const auto& [name, value] : plugin.env) out.push_back(fmt::format("{}={}", name, value));
  std::string spec = R"({"interactive":false)";
  if (!plugin.cluster_json.empty()) spec += R"(,"cluster":)" + plugin.cluster_json;
  out.push_back(
      fmt::format(R"(KUBERNETES_EXEC_INFO={{"apiVersion":{},"kind":"ExecCredential","spec":{}}}}})",
                  JsonString(plugin.api_version), spec));
  return out;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (std::string& text : strings) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// Starts the plugin with its standard output in `out`.
Result<pid_t> Spawn(const ExecPlugin& plugin, UniqueFd& out) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return ErrnoFail("pipe for {}", plugin.command);
  out = UniqueFd(fds[0]);
  const UniqueFd child_end(fds[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, child_end.get(), 1);
  // A group of its own, so that what it starts can be ended with it.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  std::vector<std::string> args{plugin.command};
  args.insert(args.end(), plugin.args.begin(), plugin.args.end());
  std::vector<std::string> env = Environment(plugin);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, plugin.command.c_str(), &actions, &attributes,
                                   Pointers(args).data(), Pointers(env).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    Status status = ErrnoStatus(error, fmt::format("run credential plugin {}", plugin.command));
    if (plugin.install_hint.empty()) return std::unexpected(std::move(status));
    return std::unexpected(std::move(status).Wrap(plugin.install_hint));
  }
  return pid;
}

// Everything the child prints, until it closes its output.
Result<std::string> ReadOutput(const Context& ctx, int fd, const std::string& command) {
  std::string text;
  for (;;) {
    if (auto alive = ctx.Check(); !alive)
      return std::unexpected(alive.error().Wrap("credential plugin " + command));
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, 100);
    if (ready < 0 && errno != EINTR) return ErrnoFail("poll output of {}", command);
    if (ready <= 0) continue;
    char buffer[16 << 10];
    const ssize_t got = ::read(fd, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoFail("read output of {}", command);
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kOutputLimit)
      return Fail(Code::kInvalid, "credential plugin {} printed over {} bytes", command,
                  kOutputLimit);
  }
}

std::string Text(const Json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

Result<PluginAnswer> ParseExecCredential(std::string_view json, std::string_view api_version) {
  const Json root = Json::parse(json, nullptr, false);
  if (!root.is_object()) return Fail(Code::kInvalid, "credential plugin: output is not JSON");
  if (Text(root, "kind") != "ExecCredential")
    return Fail(Code::kInvalid, "credential plugin: kind is \"{}\", expected ExecCredential",
                Text(root, "kind"));
  if (Text(root, "apiVersion") != api_version)
    return Fail(Code::kInvalid, "credential plugin: apiVersion is \"{}\", the kubeconfig says {}",
                Text(root, "apiVersion"), api_version);
  const auto status = root.find("status");
  if (status == root.end() || !status->is_object())
    return Fail(Code::kInvalid, "credential plugin: no status");
  PluginAnswer answer;
  answer.credential.token = Secret(Text(*status, "token"));
  answer.credential.cert_pem = Text(*status, "clientCertificateData");
  answer.credential.key_pem = Secret(Text(*status, "clientKeyData"));
  if (answer.credential.cert_pem.empty() != answer.credential.key_pem.empty())
    return Fail(Code::kInvalid,
                "credential plugin: clientCertificateData and clientKeyData come together");
  if (answer.credential.token.empty() && answer.credential.cert_pem.empty())
    return Fail(Code::kInvalid, "credential plugin: neither a token nor a certificate");
  if (const std::string expires = Text(*status, "expirationTimestamp"); !expires.empty()) {
    auto time = api::ParseMicroTime(expires);
    if (!time)
      return std::unexpected(
          std::move(time).error().Wrap("credential plugin: expirationTimestamp"));
    answer.expires = *time;
  }
  return answer;
}

Result<PluginAnswer> RunExecPlugin(const Context& ctx, const ExecPlugin& plugin) {
  const Context limited = ctx.WithTimeout(plugin.timeout);
  UniqueFd out;
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(plugin, out));
  Child child(pid);
  ASSIGN_OR_RETURN(const std::string text, ReadOutput(limited, out.get(), plugin.command));
  int status = 0;
  while (!child.Ended(status)) {
    if (auto alive = limited.Check(); !alive)
      return std::unexpected(alive.error().Wrap("credential plugin " + plugin.command));
    ::poll(nullptr, 0, 5);
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return Fail(Code::kPermission, "credential plugin {} failed with {} {}", plugin.command,
                WIFEXITED(status) ? "exit code" : "signal",
                WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
  return ParseExecCredential(text, plugin.api_version);
}

}  // namespace paddleop::kube
