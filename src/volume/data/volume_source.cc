#include "volume/data/internal/volume_source.h"

#include <algorithm>

#include "base/secret.h"
#include "volume/vfs/volume.h"

namespace paddleop::volume::data {
namespace {

using object::ObjectInfo;

constexpr std::size_t kPage = 4096;
// Files that lie in one pack are read one after the other: the pack is fetched once.
constexpr std::uint64_t kCacheBytes = 16 << 20;

std::chrono::system_clock::time_point TimeOf(const Timestamp& time) {
  return std::chrono::system_clock::time_point(std::chrono::seconds(time.seconds) +
                                               std::chrono::nanoseconds(time.nanos));
}

std::string EtagOf(const Entry& entry) {
  return fmt::format("{}-{}.{}-{}", ToInt(entry.ino), entry.attr.mtime.seconds,
                     entry.attr.mtime.nanos, entry.attr.length);
}

ObjectInfo InfoOf(std::string key, const Entry& entry) {
  ObjectInfo info;
  info.key = std::move(key);
  info.mtime = TimeOf(entry.attr.mtime);
  info.is_prefix = entry.attr.type == FileType::kDirectory;
  info.owner =
      object::FileOwner{.mode = entry.attr.mode, .uid = entry.attr.uid, .gid = entry.attr.gid};
  if (info.is_prefix) return info;
  info.size = entry.attr.length;
  info.etag = EtagOf(entry);
  return info;
}

class VolumeStore final : public object::ObjectStore {
 public:
  VolumeStore(std::unique_ptr<Volume> volume, std::string name, Ino root)
      : volume_(std::move(volume)), name_(std::move(name)), root_(root) {}

  std::string name() const override { return name_; }
  object::StoreTraits traits() const override { return {}; }
  Result<void> Create(const Context&) override { return ReadOnly(); }
  Result<void> Put(const Context&, std::string_view, std::span<const std::byte>,
                   const object::PutOptions&) override {
    return ReadOnly();
  }
  Result<object::GetResult> Get(const Context& ctx, std::string_view key,
                                const object::GetOptions& options,
                                std::span<std::byte> out) override;
  Result<void> Delete(const Context& ctx, std::string_view key) override;
  Result<ObjectInfo> Head(const Context& ctx, std::string_view key) override {
    ASSIGN_OR_RETURN(const Entry found, Find(ctx, key));
    return InfoOf(std::string(key), found);
  }
  Result<void> List(const Context& ctx, const object::ListOptions& options,
                    const object::ListVisitor& visit) override;

 private:
  struct Listed {
    std::string key;  // whole, with '/' behind a directory
    Entry entry;
  };

  std::unexpected<Status> ReadOnly() const {
    return Fail(Code::kNotSupported, "{} is a source: nothing is written to it", name_);
  }
  Result<Entry> Find(const Context& ctx, std::string_view key) {
    auto found = volume_->meta().Resolve(ctx, {}, root_, key);
    if (!found) return std::unexpected(std::move(found).error().Wrap(name_ + std::string(key)));
    if ((found->attr.type == FileType::kDirectory) != key.ends_with('/')) {
      return Fail(Code::kNotFound, "there is no file {}{}", name_, key);
    }
    return found;
  }
  Result<bool> Walk(const Context& ctx, Ino directory, const std::string& path,
                    const object::ListOptions& options, const object::ListVisitor& visit);

  const std::unique_ptr<Volume> volume_;
  const std::string name_;
  const Ino root_;
};

Result<object::GetResult> VolumeStore::Get(const Context& ctx, std::string_view key,
                                           const object::GetOptions& options,
                                           std::span<std::byte> out) {
  ASSIGN_OR_RETURN(const Entry entry, Find(ctx, key));
  object::GetResult got;
  if (entry.attr.type == FileType::kDirectory) return got;
  got.etag = EtagOf(entry);
  got.object_size = entry.attr.length;
  const auto changed = [&] { return Fail(Code::kConflict, "{}{} has changed", name_, key); };
  if (!options.if_match.empty() && options.if_match != got.etag) return changed();
  const std::uint64_t offset = std::min(options.range.offset, got.object_size);
  const std::uint64_t wanted = std::min(options.range.length, got.object_size - offset);
  if (wanted > out.size()) {
    return Fail(Code::kInvalid, "{}{}: {} bytes do not fit into a buffer of {}", name_, key, wanted,
                out.size());
  }
  ASSIGN_OR_RETURN(const OpenedFile file, volume_->vfs().Open(ctx, {}, entry.ino, {.read = true}));
  auto read = volume_->vfs().Read(ctx, file.handle, offset, out.first(wanted));
  auto closed = volume_->vfs().Release(ctx, file.handle);
  if (!read) return std::unexpected(std::move(read).error());
  RETURN_IF_ERROR(closed);
  got.size = *read;
  if (got.size < wanted) return changed();
  if (options.if_match.empty()) return got;
  ASSIGN_OR_RETURN(const Attr now, volume_->meta().GetAttr(ctx, entry.ino));
  if (EtagOf({.ino = entry.ino, .attr = now}) != got.etag) return changed();
  return got;
}

Result<void> VolumeStore::Delete(const Context& ctx, std::string_view key) {
  while (key.ends_with('/')) key.remove_suffix(1);
  const std::size_t slash = key.rfind('/');
  const std::string_view above = slash == std::string_view::npos ? "" : key.substr(0, slash);
  auto parent = volume_->meta().Resolve(ctx, {}, root_, above);
  Result<void> gone;
  if (!parent) {
    gone = std::unexpected(std::move(parent).error());
  } else {
    gone = volume_->meta().Unlink(ctx, {}, parent->ino, key.substr(slash + 1));
  }
  if (!gone && !IsNotFound(gone.error())) return gone;
  return {};
}

Result<void> VolumeStore::List(const Context& ctx, const object::ListOptions& options,
                               const object::ListVisitor& visit) {
  if (!options.delimiter.empty() || !options.prefix.empty()) {
    return Fail(Code::kNotSupported, "{} is listed as a whole", name_);
  }
  RETURN_IF_ERROR(Walk(ctx, root_, "", options, visit));
  return {};
}

Result<bool> VolumeStore::Walk(const Context& ctx, Ino directory, const std::string& path,
                               const object::ListOptions& options,
                               const object::ListVisitor& visit) {
  std::vector<Listed> entries;
  std::string cursor;
  do {
    ASSIGN_OR_RETURN(DirPage page,
                     volume_->meta().ReadDir(ctx, {}, directory, cursor, kPage, true));
    for (DirEntry& entry : page.entries) {
      if (!entry.attr) continue;
      const bool is_directory = entry.type == FileType::kDirectory;
      if (!is_directory && entry.type != FileType::kFile) continue;
      entries.push_back({path + entry.name + (is_directory ? "/" : ""),
                         {.ino = entry.ino, .attr = *std::move(entry.attr)}});
    }
    cursor = page.next;
  } while (!cursor.empty());
  std::sort(entries.begin(), entries.end(),
            [](const Listed& a, const Listed& b) { return a.key < b.key; });
  // Pages of a directory that changes may repeat an entry.
  entries.erase(std::unique(entries.begin(), entries.end(),
                            [](const Listed& a, const Listed& b) { return a.key == b.key; }),
                entries.end());
  for (Listed& listed : entries) {
    const bool is_directory = listed.key.ends_with('/');
    if ((!is_directory || options.directories) && listed.key > options.start_after) {
      ObjectInfo info = InfoOf(listed.key, listed.entry);
      ASSIGN_OR_RETURN(const bool more, visit(info));
      if (!more) return false;
    }
    if (!is_directory) continue;
    // All below it begins with its key.
    const bool before =
        listed.key < options.start_after && !options.start_after.starts_with(listed.key);
    if (before) continue;
    ASSIGN_OR_RETURN(const bool more, Walk(ctx, listed.entry.ino, listed.key, options, visit));
    if (!more) return false;
  }
  return true;
}

}  // namespace

Result<VolumeSource> OpenVolumeSource(const Context& ctx, const std::string& meta_url,
                                      const std::string& directory, const Logger& log,
                                      MetricsRegistry& metrics) {
  ASSIGN_OR_RETURN(auto volume, Volume::Open(ctx, meta_url,
                                             {.memory_cache_bytes = kCacheBytes,
                                              .max_downloads = 8,
                                              .buffer_bytes = 32 << 20},
                                             log, metrics));
  auto found = volume->meta().Resolve(ctx, {}, kRootIno, directory);
  if (!found) {
    return std::unexpected(std::move(found).error().Wrap(
        fmt::format("{} in volume {}", directory, RedactUrl(meta_url))));
  }
  VolumeSource source;
  std::string path = directory;
  Ino root = found->ino;
  if (found->attr.type != FileType::kDirectory) {
    while (path.ends_with('/')) path.pop_back();
    source.single = path.substr(path.rfind('/') + 1);
    path.resize(path.size() - source.single.size());
    ASSIGN_OR_RETURN(const Entry parent, volume->meta().Resolve(ctx, {}, kRootIno, path));
    root = parent.ino;
  }
  if (!path.starts_with('/')) path.insert(path.begin(), '/');
  if (!path.ends_with('/')) path += '/';
  std::string name = fmt::format("jfs://{}{}", volume->setting().name, path);
  source.place = {.uuid = volume->setting().uuid, .directory = root};
  source.store = std::make_unique<VolumeStore>(std::move(volume), std::move(name), root);
  return source;
}

}  // namespace paddleop::volume::data
