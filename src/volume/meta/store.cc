#include "volume/meta/internal/store.h"

#include <algorithm>

#include "volume/format/reserved_names.h"
#include "volume/meta/redis/redis_engine.h"
#include "volume/meta/sqlite/sqlite_engine.h"

namespace paddleop::volume {
namespace {

constexpr std::uint64_t kInodeBatch = 1024;
// As the official client's skip-dir-mtime: a directory that changed this recently is not written
// again.
constexpr std::int64_t kDirTouchNanos = 100'000'000;

Attr NewDirectory(std::uint16_t mode, const Timestamp& now) {
  Attr attr;
  attr.type = FileType::kDirectory;
  attr.mode = mode;
  attr.nlink = 2;
  attr.length = 4096;
  attr.parent = kRootIno;
  attr.atime = attr.mtime = attr.ctime = now;
  return attr;
}

}  // namespace

Result<void> CheckAccess(const Caller& caller, const Attr& attr, unsigned mask) {
  if (caller.uid == 0 || !caller.check_permissions) return {};
  unsigned allowed = attr.mode & 7U;
  if (caller.uid == attr.uid) {
    allowed = (attr.mode >> 6U) & 7U;
  } else if (caller.InGroup(attr.gid)) {
    allowed = (attr.mode >> 3U) & 7U;
  }
  if ((allowed & mask) != mask) {
    return Fail(Code::kPermission, "mode {:o} does not allow user {} so much", attr.mode,
                caller.uid);
  }
  return {};
}

Result<void> CheckSticky(const Caller& caller, const Attr& dir, const Attr& child) {
  if (caller.uid == 0 || (dir.mode & 01000) == 0) return {};
  if (caller.uid == dir.uid || caller.uid == child.uid) return {};
  return Fail(Code::kPermission, "the directory is sticky and the entry belongs to another user");
}

Result<void> CheckDirWritable(const Caller& caller, const Attr& dir, bool removing) {
  if ((dir.flags & kFlagImmutable) != 0) {
    return Fail(Code::kPermission, "the directory is immutable");
  }
  if (removing && (dir.flags & kFlagAppend) != 0) {
    return Fail(Code::kPermission, "the directory is append-only");
  }
  return CheckAccess(caller, dir, kMayWrite | kMayExecute);
}

std::unexpected<Status> NoEntry(Ino parent, std::string_view name) {
  return Fail(Code::kNotFound, "there is no '{}' in directory {}", name, ToInt(parent));
}

std::unexpected<Status> NoInode(Ino ino) {
  return Fail(Code::kNotFound, "there is no inode {}", ToInt(ino));
}

Result<void> CheckNewName(Ino parent, std::string_view name) {
  RETURN_IF_ERROR(ValidateName(name));
  if (parent != kRootIno || !IsReservedInRoot(name)) return {};
  return Fail(Code::kPermission, "'{}' is reserved in the root", name);
}

EngineMetaStore::EngineMetaStore(std::unique_ptr<MetaEngine> engine, const MetaOptions& options)
    : options_(options),
      engine_(std::move(engine)),
      quotas_(*engine_, *options.clock, options.heartbeat),
      deletions_(*engine_, options.log) {}

EngineMetaStore::~EngineMetaStore() {
  const Context ctx = Context::Background().WithTimeout(std::chrono::seconds(10));
  if (auto closed = CloseSession(ctx); !closed && options_.log != nullptr) {
    options_.log->Warn(ctx, "session was not closed; other clients clean up when it expires",
                       {{"error", closed.error().message()}});
  }
}

Result<void> EngineMetaStore::Format(const Context& ctx, const Setting& setting, bool force) {
  if (options_.read_only) return Fail(Code::kPermission, "the store is open for reading only");
  RETURN_IF_ERROR(setting.ValidateNew());
  ASSIGN_OR_RETURN(const auto present, engine_->LoadSetting(ctx));
  if (present && !force) {
    return Fail(Code::kAlreadyExists, "the database holds a volume already");
  }
  const Timestamp now = Now();
  std::vector<std::pair<Ino, Attr>> nodes;
  if (setting.trash_days > 0) nodes.emplace_back(kTrashIno, NewDirectory(0555, now));
  if (!present) nodes.emplace_back(kRootIno, NewDirectory(0777, now));
  ASSIGN_OR_RETURN(const std::string json, setting.ToJson());
  RETURN_IF_ERROR(engine_->StoreSetting(ctx, json, !present, nodes));
  ASSIGN_OR_RETURN([[maybe_unused]] const Setting loaded, Load(ctx));
  return {};
}

Result<Setting> EngineMetaStore::Load(const Context& ctx) {
  ASSIGN_OR_RETURN(const auto json, engine_->LoadSetting(ctx));
  if (!json) {
    return Fail(Code::kNotFound, "the database holds no volume: make one with 'samplefs format'");
  }
  ASSIGN_OR_RETURN(Setting setting, Setting::Parse(*json));
  RETURN_IF_ERROR(setting.CheckReadable());
  quotas_.SetVolumeLimits(setting.capacity, setting.inodes);
  MutexLock lock(mutex_);
  writable_ = setting.CheckWritable();
  setting_ = setting;
  return setting;
}

Result<void> EngineMetaStore::UpdateSetting(const Context& ctx, const Setting& setting) {
  if (options_.read_only) return Fail(Code::kPermission, "the store is open for reading only");
  ASSIGN_OR_RETURN(const auto json, engine_->LoadSetting(ctx));
  if (!json) return Fail(Code::kNotFound, "the database holds no volume");
  ASSIGN_OR_RETURN(const Setting present, Setting::Parse(*json));
  if (present.uuid != setting.uuid) {
    return Fail(Code::kConflict, "the database holds volume {} with another UUID", present.name);
  }
  std::vector<std::pair<Ino, Attr>> nodes;
  if (setting.trash_days > 0) nodes.emplace_back(kTrashIno, NewDirectory(0555, Now()));
  ASSIGN_OR_RETURN(const std::string text, setting.ToJson());
  RETURN_IF_ERROR(engine_->StoreSetting(ctx, text, /*new_volume=*/false, nodes));
  ASSIGN_OR_RETURN([[maybe_unused]] const Setting loaded, Load(ctx));
  return {};
}

// Sizes as the official client shows them: an unlimited volume looks mostly empty.
Result<StatFs> EngineMetaStore::GetStatFs(const Context& ctx) {
  ASSIGN_OR_RETURN(const Usage usage, engine_->GetUsage(ctx));
  std::uint64_t capacity = 0;
  std::uint64_t inodes = 0;
  {
    MutexLock lock(mutex_);
    if (setting_) {
      capacity = setting_->capacity;
      inodes = setting_->inodes;
    }
  }
  StatFs stat;
  stat.used_space = static_cast<std::uint64_t>(std::max<std::int64_t>(0, usage.space));
  stat.used_inodes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, usage.inodes));
  stat.total_space = capacity;
  if (capacity == 0) {
    stat.total_space = 1ULL << 50;
    while (stat.used_space > stat.total_space / 10 * 8) stat.total_space *= 2;
  }
  stat.available_space = stat.total_space - std::min(stat.total_space, stat.used_space);
  if (inodes > 0) {
    stat.available_inodes = inodes - std::min(inodes, stat.used_inodes);
  } else {
    stat.available_inodes = 10ULL << 20;
    while (stat.used_inodes * 10 > (stat.used_inodes + stat.available_inodes) * 8) {
      stat.available_inodes *= 2;
    }
  }
  return stat;
}

Result<void> EngineMetaStore::CheckWritable() {
  if (options_.read_only) return Fail(Code::kPermission, "the store is open for reading only");
  MutexLock lock(mutex_);
  if (!setting_) return Fail(Code::kInvalid, "no volume is loaded");
  return writable_;
}

Result<void> EngineMetaStore::Run(const Context& ctx, const Body& body) {
  RETURN_IF_ERROR(CheckWritable());
  bool prepared = false;
  {
    MutexLock lock(mutex_);
    prepared = prepared_;
  }
  if (!prepared) {
    RETURN_IF_ERROR(engine_->PrepareForWriting(ctx));
    MutexLock lock(mutex_);
    prepared_ = true;
  }
  Changes changes;
  auto outcome = engine_->WithTxn(ctx, [&](MetaTxn& txn) -> Result<void> {
    EndRemoving(changes.removing);
    changes = Changes();
    RETURN_IF_ERROR(body(txn, changes));
    if (changes.usage.space != 0 || changes.usage.inodes != 0) {
      txn.AddUsage(changes.usage.space, changes.usage.inodes);
    }
    for (const auto& [dir, delta] : changes.dirs) {
      if (!delta.IsZero()) txn.AddDirUsage(dir, delta);
    }
    for (const auto& [dir, delta] : changes.quotas) {
      if (delta.space != 0 || delta.inodes != 0) txn.AddQuotaUsage(dir, delta.space, delta.inodes);
    }
    return {};
  });
  EndRemoving(changes.removing);
  if (!outcome) return std::unexpected(std::move(outcome).error());
  quotas_.Committed(changes);
  deletions_.Add(changes.deleted, outcome->garbage);
  // Those that were closed before the commit had nobody left to delete them. What fails is tried
  // again later; this transaction is done all the same.
  if (auto kept = KeepSustained(ctx, changes.sustained); !kept && options_.log != nullptr) {
    options_.log->Warn(ctx, "a removed file stays for now", {{"error", kept.error().message()}});
  }
  return {};
}

Result<Ino> EngineMetaStore::NewInodes(const Context& ctx, std::uint64_t count) {
  if (count >= kInodeBatch) {
    ASSIGN_OR_RETURN(const std::uint64_t first, engine_->AllocateInodes(ctx, count));
    return Ino{first};
  }
  MutexLock lock(ids_mutex_);
  if (end_inode_ - next_inode_ < count) {
    ASSIGN_OR_RETURN(next_inode_, engine_->AllocateInodes(ctx, kInodeBatch));
    end_inode_ = next_inode_ + kInodeBatch;
  }
  next_inode_ += count;
  return Ino{next_inode_ - count};
}

bool EngineMetaStore::dir_stats() {
  MutexLock lock(mutex_);
  return setting_ && setting_->dir_stats;
}

int EngineMetaStore::trash_days() {
  MutexLock lock(mutex_);
  return setting_ ? setting_->trash_days : 0;
}

Result<void> EngineMetaStore::Account(const Context& ctx, Changes& changes, Ino dir,
                                      const DirUsage& delta) {
  if (IsTrash(dir) || dir == kNoIno || delta.IsZero()) return {};
  if (dir_stats()) changes.dirs[dir] += delta;
  ASSIGN_OR_RETURN(const auto chain, quotas_.Chain(ctx, dir));
  for (const Ino ino : chain) {
    changes.quotas[ino].space += delta.space;
    changes.quotas[ino].inodes += delta.inodes;
  }
  return {};
}

Result<void> EngineMetaStore::AccountFile(const Context& ctx, MetaTxn& txn, Changes& changes,
                                          Ino ino, const Attr& attr, const DirUsage& delta) {
  if (delta.IsZero()) return {};
  if (delta.space > 0) RETURN_IF_ERROR(quotas_.CheckVolume(ctx, delta.space, 0));
  // A file without names counts nowhere else, and where its last one was may be gone.
  if (attr.nlink == 0) return {};
  std::vector<ParentCount> parents = {{.parent = attr.parent, .count = 1}};
  if (attr.parent == kNoIno) RETURN_IF_ERROR(txn.Read(ReadSet().Parents(ino, &parents)));
  for (const ParentCount& parent : parents) {
    if (parent.count <= 0) continue;
    const DirUsage scaled{.length = delta.length * parent.count,
                          .space = delta.space * parent.count,
                          .inodes = delta.inodes * parent.count};
    RETURN_IF_ERROR(Account(ctx, changes, parent.parent, scaled));
  }
  for (const auto& [quota, more] : changes.quotas) {
    RETURN_IF_ERROR(quotas_.CheckDirectories(ctx, std::span(&quota, 1), more.space, more.inodes));
  }
  return {};
}

Result<void> EngineMetaStore::CheckRoom(const Context& ctx, Ino dir, std::int64_t space,
                                        std::int64_t inodes) {
  RETURN_IF_ERROR(quotas_.CheckVolume(ctx, space, inodes));
  ASSIGN_OR_RETURN(const auto chain, quotas_.Chain(ctx, dir));
  return quotas_.CheckDirectories(ctx, chain, space, inodes);
}

bool EngineMetaStore::TouchDirectory(Attr& dir, const Timestamp& now) {
  const std::int64_t age =
      (now.seconds - dir.mtime.seconds) * 1'000'000'000 + now.nanos - dir.mtime.nanos;
  if (age >= 0 && age < kDirTouchNanos) return false;
  dir.mtime = dir.ctime = now;
  return true;
}

Result<std::unique_ptr<MetaStore>> OpenMetaStore(const Context& ctx, const std::string& url,
                                                 const MetaOptions& options) {
  RETURN_IF_ERROR(ctx.Check());
  if (url.starts_with("sqlite3://")) {
    ASSIGN_OR_RETURN(std::string path, SqliteEngine::PathOf(url));
    return std::make_unique<EngineMetaStore>(
        std::make_unique<SqliteEngine>(std::move(path), options.read_only), options);
  }
  for (const std::string_view scheme : {"redis://", "rediss://", "unix://"}) {
    if (!url.starts_with(scheme)) continue;
    ASSIGN_OR_RETURN(auto engine, RedisEngine::Create(url, options.read_only, options.log));
    return std::make_unique<EngineMetaStore>(std::move(engine), options);
  }
  return Fail(Code::kInvalid,
              "metadata URL '{}': it must begin with sqlite3://, redis://, rediss:// or unix://",
              RedactUrl(url));
}

}  // namespace paddleop::volume
