#include "runtime/server/token_store.h"

#include <algorithm>
#include <memory>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/posix.h"

namespace paddleop::runtime {
namespace {

constexpr std::size_t kMinBytes = 16;
constexpr std::size_t kMaxOld = 4;

}  // namespace

Result<std::unique_ptr<TokenStore>> TokenStore::Open(std::string file, const Logger& log,
                                                     Clock& clock) {
  std::unique_ptr<TokenStore> store(new TokenStore(std::move(file), log, clock));
  MutexLock lock(store->mutex_);
  RETURN_IF_ERROR(store->Load());
  store->looked_ = clock.Now();
  return store;
}

Result<void> TokenStore::Load() {
  struct stat now{};
  if (::stat(file_.c_str(), &now) != 0) return ErrnoFail("token file {}", file_);
  if (now.st_ino == inode_ && now.st_mtim.tv_sec == changed_.tv_sec &&
      now.st_mtim.tv_nsec == changed_.tv_nsec) {
    return {};
  }
  ASSIGN_OR_RETURN(std::string text, ReadFile(file_, 64 << 10));
  text = std::string(Trimmed(text));
  if (text.size() < kMinBytes) {
    return Fail(Code::kInvalid, "token file {} holds {} bytes; a token has at least {}", file_,
                text.size(), kMinBytes);
  }
  Secret token(std::move(text));
  if (!current_.empty() && !(token == current_)) Retire(current_);
  current_ = std::move(token);
  inode_ = now.st_ino;
  changed_ = now.st_mtim;
  // Absent most of the time.
  if (auto previous = ReadFile(file_ + ".previous", 64 << 10)) {
    Secret old(std::string(Trimmed(*previous)));
    const std::string digest = Sha256(old.Reveal());
    if (old.Reveal().size() >= kMinBytes && digest != seen_previous_) Retire(std::move(old));
    seen_previous_ = digest;
  }
  return {};
}

void TokenStore::Retire(Secret token) {
  std::erase_if(old_, [&](const Old& old) { return old.token == token; });
  old_.push_back({std::move(token), clock_.Now() + kGrace});
  if (old_.size() > kMaxOld) old_.erase(old_.begin());
}

void TokenStore::LookAgain() {
  const auto now = clock_.Now();
  std::erase_if(old_, [&](const Old& old) { return old.until <= now; });
  if (now - looked_ < kLookAgain) return;
  looked_ = now;
  if (auto loaded = Load(); !loaded) {
    log_.Warn(Context::Background(), "token not read again; the one before stays in use",
              {{"error", loaded.error().message()}});
  }
}

TokenStore::Verdict TokenStore::Check(std::optional<std::string_view> authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  if (!authorization || !authorization->starts_with(kScheme)) return Verdict::kMissing;
  const std::string_view given = authorization->substr(kScheme.size());
  MutexLock lock(mutex_);
  LookAgain();
  bool good = ConstantTimeEquals(given, current_.Reveal());
  for (const Old& old : old_) good = ConstantTimeEquals(given, old.token.Reveal()) || good;
  return good ? Verdict::kGood : Verdict::kWrong;
}

Secret TokenStore::Current() {
  MutexLock lock(mutex_);
  LookAgain();
  return current_;
}

Secret TokenStore::Previous() {
  MutexLock lock(mutex_);
  LookAgain();
  return old_.empty() ? Secret() : old_.back().token;
}

}  // namespace paddleop::runtime
