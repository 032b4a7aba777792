#include "base/bytes.h"
#include "interop/file_view.h"

namespace paddleop::testing {
namespace {

using namespace paddleop::volume;

class VolumeView final : public FileView {
 public:
  explicit VolumeView(Volume& volume) : vfs_(volume.vfs()), meta_(volume.meta()) {}

  Result<void> Write(const std::string& path, std::uint64_t offset,
                     std::string_view data) override {
    ASSIGN_OR_RETURN(const auto where, Parent(path));
    ASSIGN_OR_RETURN(const auto opened, vfs_.Create(Ctx(), caller_, where.first, where.second, 0644,
                                                    {.read = false, .write = true}, false));
    auto written = vfs_.Write(Ctx(), opened.handle, offset, AsBytes(data));
    RETURN_IF_ERROR(vfs_.Release(Ctx(), opened.handle));
    return written;
  }
  Result<void> Truncate(const std::string& path, std::uint64_t length) override {
    ASSIGN_OR_RETURN(const Ino ino, Find(path));
    RETURN_IF_ERROR(vfs_.SetAttr(Ctx(), caller_, ino, {.length = length}));
    return {};
  }
  Result<void> PunchHole(const std::string& path, std::uint64_t offset,
                         std::uint64_t length) override {
    ASSIGN_OR_RETURN(const Ino ino, Find(path));
    RETURN_IF_ERROR(vfs_.Fallocate(Ctx(), caller_, ino, FallocateMode::kPunchHole, offset, length));
    return {};
  }
  Result<void> Mkdir(const std::string& path) override {
    ASSIGN_OR_RETURN(const auto where, Parent(path));
    RETURN_IF_ERROR(meta_.Mkdir(Ctx(), caller_, where.first, where.second, 0755));
    return {};
  }
  Result<void> Rmdir(const std::string& path) override {
    ASSIGN_OR_RETURN(const auto where, Parent(path));
    return meta_.Rmdir(Ctx(), caller_, where.first, where.second);
  }
  Result<void> Unlink(const std::string& path) override {
    ASSIGN_OR_RETURN(const auto where, Parent(path));
    return meta_.Unlink(Ctx(), caller_, where.first, where.second);
  }
  Result<void> Rename(const std::string& from, const std::string& to) override {
    ASSIGN_OR_RETURN(const auto source, Parent(from));
    ASSIGN_OR_RETURN(const auto target, Parent(to));
    RETURN_IF_ERROR(meta_.Rename(Ctx(), caller_, source.first, source.second, target.first,
                                 target.second, RenameMode::kReplace));
    return {};
  }
  Result<void> Link(const std::string& existing, const std::string& path) override {
    ASSIGN_OR_RETURN(const Ino ino, Find(existing));
    ASSIGN_OR_RETURN(const auto where, Parent(path));
    RETURN_IF_ERROR(meta_.Link(Ctx(), caller_, ino, where.first, where.second));
    return {};
  }
  Result<void> Symlink(const std::string& target, const std::string& path) override {
    ASSIGN_OR_RETURN(const auto where, Parent(path));
    RETURN_IF_ERROR(meta_.Symlink(Ctx(), caller_, where.first, where.second, target));
    return {};
  }
  Result<void> Chmod(const std::string& path, unsigned mode) override {
    ASSIGN_OR_RETURN(const Ino ino, Find(path));
    RETURN_IF_ERROR(vfs_.SetAttr(Ctx(), caller_, ino, {.mode = static_cast<std::uint16_t>(mode)}));
    return {};
  }
  Result<void> SetTime(const std::string& path, std::int64_t mtime) override {
    ASSIGN_OR_RETURN(const Ino ino, Find(path));
    RETURN_IF_ERROR(vfs_.SetAttr(Ctx(), caller_, ino, {.mtime = Timestamp{.seconds = mtime}}));
    return {};
  }
  Result<void> SetXattr(const std::string& path, const std::string& name,
                        const std::string& value) override {
    ASSIGN_OR_RETURN(const Ino ino, Find(path));
    return meta_.SetXattr(Ctx(), ino, name, value, XattrMode::kAny);
  }

  Result<std::map<std::string, FileFacts>> Snapshot() override {
    std::map<std::string, FileFacts> all;
    RETURN_IF_ERROR(Walk(kRootIno, "", all));
    return all;
  }

 private:
  static Context Ctx() { return Context::Background().WithTimeout(std::chrono::minutes(1)); }

  Result<Ino> Find(const std::string& path) {
    ASSIGN_OR_RETURN(const auto entry, meta_.Resolve(Ctx(), caller_, kRootIno, path));
    return entry.ino;
  }
  Result<std::pair<Ino, std::string>> Parent(const std::string& path) {
    const auto slash = path.rfind('/');
    if (slash == std::string::npos) return std::pair(kRootIno, path);
    ASSIGN_OR_RETURN(const Ino ino, Find(path.substr(0, slash)));
    return std::pair(ino, path.substr(slash + 1));
  }

  Result<void> Walk(Ino directory, const std::string& prefix,
                    std::map<std::string, FileFacts>& all) {
    std::string cursor;
    do {
      ASSIGN_OR_RETURN(const auto page,
                       meta_.ReadDir(Ctx(), caller_, directory, cursor, 100, true));
      for (const auto& entry : page.entries) {
        if (!entry.attr) return Fail(Code::kCorrupt, "{} has no inode", entry.name);
        ASSIGN_OR_RETURN(all[prefix + entry.name], FactsOf(entry.ino, *entry.attr));
        if (entry.type == FileType::kDirectory)
          RETURN_IF_ERROR(Walk(entry.ino, prefix + entry.name + "/", all));
      }
      cursor = page.next;
    } while (!cursor.empty());
    return {};
  }

  Result<FileFacts> FactsOf(Ino ino, const Attr& attr) {
    FileFacts facts{.type = attr.type == FileType::kDirectory ? 'd'
                            : attr.type == FileType::kSymlink ? 'l'
                                                              : 'f'};
    if (facts.type == 'l') {
      ASSIGN_OR_RETURN(facts.content, meta_.ReadLink(Ctx(), ino));
      return facts;
    }
    facts.mode = attr.mode;
    if (facts.type == 'f') {
      facts.size = attr.length;
      facts.links = attr.nlink;
      facts.mtime = attr.mtime.seconds;
      ASSIGN_OR_RETURN(const auto opened, vfs_.Open(Ctx(), caller_, ino, {.read = true}));
      facts.content.resize(attr.length);
      auto n = vfs_.Read(Ctx(), opened.handle, 0, std::as_writable_bytes(std::span(facts.content)));
      RETURN_IF_ERROR(vfs_.Release(Ctx(), opened.handle));
      if (!n) return std::unexpected(std::move(n).error());
      if (*n != attr.length)
        return Fail(Code::kCorrupt, "{} of {} bytes were read", *n, attr.length);
    }
    ASSIGN_OR_RETURN(const auto names, meta_.ListXattr(Ctx(), ino));
    for (const auto& name : names) {
      if (!name.starts_with("user.")) continue;
      ASSIGN_OR_RETURN(facts.xattrs[name], meta_.GetXattr(Ctx(), ino, name));
    }
    return facts;
  }

  Vfs& vfs_;
  MetaStore& meta_;
  const Caller caller_;
};

}  // namespace

std::unique_ptr<FileView> MakeVolumeView(Volume& volume) {
  return std::make_unique<VolumeView>(volume);
}

}  // namespace paddleop::testing
