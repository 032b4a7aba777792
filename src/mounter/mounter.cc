#include "mounter/mounter.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "mounter/meta_url.h"

namespace paddleop::mounter {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr std::size_t kSaid = 2000;  // bytes of a failed process's log that an error carries

bool ValidId(const std::string& id) {
  return !id.empty() && id.front() != '.' && std::all_of(id.begin(), id.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '.' || c == '_';
  });
}

std::string EndOf(const std::string& file) {
  auto text = ReadFile(file);
  if (!text) return "";
  return text->size() > kSaid ? text->substr(text->size() - kSaid) : *text;
}

}  // namespace

Result<std::unique_ptr<Mounter>> Mounter::Create(MounterOptions options, const Logger& log) {
  RETURN_IF_ERROR(MakeDirectories(options.directory, 0711));
  std::unique_ptr<Mounter> mounter(new Mounter(std::move(options), log));
  mounter->TakeUp();
  mounter->watcher_ = std::jthread([m = mounter.get()](const std::stop_token& stop) {
    SetThreadName("mounter");
    m->Watch(Context::Background().WithStop(stop));
  });
  return mounter;
}

Mounter::~Mounter() = default;

std::string Mounter::PathOf(const std::string& id, const char* name) const {
  return fmt::format("{}/{}/{}", options_.directory, id, name);
}

void Mounter::TakeUp() {
  std::error_code error;
  for (const auto& found : fs::directory_iterator(options_.directory, error)) {
    const std::string id = found.path().filename().string();
    const auto process = ReadProcess(PathOf(id, "process"));
    auto entry = std::make_shared<Entry>();
    entry->request.id = id;
    if (process) entry->process = *process;
    entry->serving = entry->process.Alive() && options_.is_mounted(PathOf(id, "fs"));
    if (entry->serving) {
      for (const auto& user : fs::directory_iterator(PathOf(id, "users"), error))
        entry->users.insert(user.path().filename().string());
    }
    const MutexLock lock(mutex_);
    entries_[id] = std::move(entry);
  }
}

std::shared_ptr<Mounter::Entry> Mounter::Find(const std::string& id) {
  const MutexLock lock(mutex_);
  auto& entry = entries_[id];
  if (!entry) entry = std::make_shared<Entry>();
  return entry;
}

std::vector<std::shared_ptr<Mounter::Entry>> Mounter::All() {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<Entry>> out;
  out.reserve(entries_.size());
  for (const auto& [id, entry] : entries_) out.push_back(entry);
  return out;
}

Result<std::string> Mounter::Mount(const Context& ctx, const MountRequest& request,
                                   const std::string& user) {
  if (!ValidId(request.id)) return Fail(Code::kInvalid, "mount id {} is not a name", request.id);
  const auto entry = Find(request.id);
  std::vector<std::string> others;  // whose mount has died, and who do not know it yet
  {
    const MutexLock busy(entry->busy);
    entry->request = request;
    if (!entry->serving || !entry->process.Alive()) {
      others.assign(entry->users.begin(), entry->users.end());
      Stop(*entry);
      RETURN_IF_ERROR(Start(ctx, *entry));
    }
    RETURN_IF_ERROR(MakeDirectories(PathOf(request.id, "users")));
    RETURN_IF_ERROR(WriteFileAtomic(PathOf(request.id, "users") + "/" + user, ""));
    entry->users.insert(user);
  }
  if (!others.empty()) options_.replaced(others, {});
  return PathOf(request.id, "fs");
}

Result<void> Mounter::Start(const Context& ctx, Entry& entry) {
  const std::string& id = entry.request.id;
  const std::string target = PathOf(id, "fs");
  RETURN_IF_ERROR(MakeDirectories(target));
  const MetaUrl meta = SplitPassword(entry.request.meta_url);
  MountCommand command;
  command.argv = {options_.program, "mount", meta.url, target};
  if (entry.request.read_only) command.argv.emplace_back("--read-only");
  if (!entry.request.options.empty()) {
    command.argv.emplace_back("-o");
    command.argv.push_back(entry.request.options);
  }
  if (!meta.password.empty()) command.env.emplace_back("META_PASSWORD", meta.password.Reveal());
  command.log_file = PathOf(id, "log");
  std::error_code error;
  fs::remove(command.log_file, error);
  ASSIGN_OR_RETURN(entry.process, StartDetached(command));
  RETURN_IF_ERROR(WriteProcess(PathOf(id, "process"), entry.process));
  auto serving = WaitUntilServing(ctx, entry);
  if (!serving) {
    const std::string said = EndOf(command.log_file);
    Stop(entry);
    return std::unexpected(std::move(serving).error().Wrap(
        said.empty() ? "mount " + id : fmt::format("mount {}: {}", id, said)));
  }
  entry.serving = true;
  log_.Info(ctx, "volume mounted", {{"mount", id}, {"path", target}});
  return {};
}

Result<void> Mounter::WaitUntilServing(const Context& ctx, const Entry& entry) const {
  const Context limited = ctx.WithTimeout(options_.ready_timeout);
  const std::string target = PathOf(entry.request.id, "fs");
  while (!options_.is_mounted(target)) {
    if (!entry.process.Alive()) return Fail(Code::kUnavailable, "the mount process has ended");
    if (!Clock::System().SleepFor(limited, milliseconds(20))) {
      RETURN_IF_ERROR(ctx.Check());
      return Fail(Code::kUnavailable, "not mounted within {} s",
                  std::chrono::duration_cast<std::chrono::seconds>(options_.ready_timeout).count());
    }
  }
  return {};
}

void Mounter::Stop(Entry& entry) {
  const std::string& id = entry.request.id;
  entry.serving = false;
  if (entry.process.Alive()) {
    ::kill(entry.process.pid, SIGTERM);
    const Context limited = Context::Background().WithTimeout(options_.stop_timeout);
    while (entry.process.Alive() && Clock::System().SleepFor(limited, milliseconds(20))) {
    }
    if (entry.process.Alive()) ::kill(entry.process.pid, SIGKILL);
  }
  Bury(entry.process);
  Detach(PathOf(id, "fs"));
  entry.process = {};
  std::error_code error;
  fs::remove(PathOf(id, "process"), error);
}

void Mounter::Release(const Context& ctx, const std::string& user) {
  for (const auto& entry : All()) {
    const MutexLock busy(entry->busy);
    if (entry->users.erase(user) == 0) continue;
    std::error_code error;
    fs::remove(PathOf(entry->request.id, "users") + "/" + user, error);
    if (!entry->users.empty()) continue;
    Stop(*entry);
    fs::remove_all(options_.directory + "/" + entry->request.id, error);
    log_.Info(ctx, "volume unmounted", {{"mount", entry->request.id}});
  }
}

void Mounter::Shutdown() {
  // Nobody is told of anything any more, and nothing is started again.
  watcher_.request_stop();
  if (watcher_.joinable()) watcher_.join();
  for (const auto& entry : All()) {
    const MutexLock busy(entry->busy);
    Stop(*entry);
    entry->users.clear();
    std::error_code error;
    fs::remove_all(options_.directory + "/" + entry->request.id, error);
  }
}

void Mounter::LookAfter(const Context& ctx, Entry& entry) {
  std::vector<std::string> users;
  Result<void> started;
  {
    const MutexLock busy(entry.busy);
    if (entry.users.empty() || entry.process.Alive()) return;
    // Without its URL (taken up from an earlier one) the next user must start it.
    entry.serving = false;
    const auto now = std::chrono::steady_clock::now();
    if (entry.request.meta_url.empty() || now < entry.retry_at) return;
    log_.Warn(ctx, "mount process ended; started again", {{"mount", entry.request.id}});
    Stop(entry);
    started = Start(ctx, entry);
    if (ctx.Stopped()) return;
    if (started) {
      entry.backoff.Reset();
    } else {
      log_.Error(ctx, "mount failed", {{"error", started.error().message()}});
      entry.retry_at = now + entry.backoff.Take();
    }
    users.assign(entry.users.begin(), entry.users.end());
  }
  options_.replaced(users, started);
}

void Mounter::Watch(const Context& ctx) {
  while (Clock::System().SleepFor(ctx, options_.look)) {
    for (const auto& entry : All()) LookAfter(ctx, *entry);
  }
}

}  // namespace paddleop::mounter
