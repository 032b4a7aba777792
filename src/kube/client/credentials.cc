#include "kube/client/credentials.h"

#include <optional>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "kube/client/exec_plugin.h"

namespace paddleop::kube {
namespace {

class StaticToken final : public Credentials {
 public:
  explicit StaticToken(Secret token) : token_(std::move(token)) {}
  Result<Credential> Get(const Context&) override { return Credential{token_, {}, {}}; }
  void Invalidate() override {}

 private:
  const Secret token_;
};

class TokenFile final : public Credentials {
 public:
  TokenFile(std::string path, Clock& clock) : path_(std::move(path)), clock_(clock) {}

  Result<Credential> Get(const Context&) override {
    const auto now = clock_.Now();
    MutexLock lock(mutex_);
    if (token_ && now - read_at_ < kReadAgain) return Credential{*token_, {}, {}};
    // The file is local and small: reading it under the lock keeps others from doing the same.
    auto text = ReadFile(path_, 1 << 20);
    if (!text) return std::unexpected(std::move(text).error().Wrap("read bearer token"));
    const std::string_view token = Trimmed(*text);
    if (token.empty()) return Fail(Code::kInvalid, "bearer token file {} is empty", path_);
    token_ = Secret(std::string(token));
    read_at_ = now;
    return Credential{*token_, {}, {}};
  }

  void Invalidate() override {
    MutexLock lock(mutex_);
    token_.reset();
  }

 private:
  static constexpr std::chrono::seconds kReadAgain{60};
  const std::string path_;
  Clock& clock_;
  Mutex mutex_;
  std::optional<Secret> token_ GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point read_at_ GUARDED_BY(mutex_){};
};

class FromPlugin final : public Credentials {
 public:
  FromPlugin(ExecPlugin plugin, Clock& clock) : plugin_(std::move(plugin)), clock_(clock) {}

  Result<Credential> Get(const Context& ctx) override {
    // Held while the plugin runs: every request needs its answer, and one process is enough. The
    // plugin has a deadline of its own.
    MutexLock running(run_mutex_);
    {
      MutexLock lock(mutex_);
      if (credential_ && (!expires_ || clock_.WallNow() + kMargin < *expires_)) return *credential_;
    }
    ASSIGN_OR_RETURN(PluginAnswer answer, RunExecPlugin(ctx, plugin_));
    MutexLock lock(mutex_);
    credential_ = std::move(answer.credential);
    expires_ = answer.expires;
    return *credential_;
  }

  void Invalidate() override {
    MutexLock lock(mutex_);
    credential_.reset();
  }

 private:
  static constexpr std::chrono::seconds kMargin{10};
  const ExecPlugin plugin_;
  Clock& clock_;
  Mutex run_mutex_;  // before mutex_
  Mutex mutex_;
  std::optional<Credential> credential_ GUARDED_BY(mutex_);
  std::optional<std::chrono::system_clock::time_point> expires_ GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<Credentials> TokenCredentials(Secret token) {
  return std::make_shared<StaticToken>(std::move(token));
}

std::shared_ptr<Credentials> TokenFileCredentials(std::string path, Clock& clock) {
  return std::make_shared<TokenFile>(std::move(path), clock);
}

std::shared_ptr<Credentials> ExecCredentials(ExecPlugin plugin, Clock& clock) {
  return std::make_shared<FromPlugin>(std::move(plugin), clock);
}

}  // namespace paddleop::kube
