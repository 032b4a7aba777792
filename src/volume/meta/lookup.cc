#include "volume/meta/internal/store.h"

namespace paddleop::volume {

Result<Entry> EngineMetaStore::Lookup(const Context& ctx, const Caller& caller, Ino parent,
                                      std::string_view name, std::optional<Attr>* directory) {
  if (directory != nullptr) directory->reset();
  if (name.size() > kMaxName) return Fail(Code::kNameTooLong, "name of {} bytes", name.size());
  if (parent == kRootIno && name == kTrashName) {
    ASSIGN_OR_RETURN(Attr attr, GetAttr(ctx, kTrashIno));
    return Entry{.ino = kTrashIno, .attr = std::move(attr)};
  }
  const bool check = caller.check_permissions && caller.uid != 0;
  if (check || name == "." || name == "..") {
    ASSIGN_OR_RETURN(Attr dir, GetAttr(ctx, parent));
    if (dir.type != FileType::kDirectory) {
      return Fail(Code::kNotDirectory, "inode {} is no directory", ToInt(parent));
    }
    RETURN_IF_ERROR(CheckAccess(caller, dir, kMayExecute));
    if (name == ".") return Entry{.ino = parent, .attr = std::move(dir)};
    if (name == "..") {
      ASSIGN_OR_RETURN(Attr above, GetAttr(ctx, dir.parent));
      return Entry{.ino = dir.parent, .attr = std::move(above)};
    }
  }
  ASSIGN_OR_RETURN(auto found, engine_->FindEntry(ctx, parent, name));
  if (!found) {
    ASSIGN_OR_RETURN(const Attr dir, GetAttr(ctx, parent));
    if (dir.type != FileType::kDirectory) {
      return Fail(Code::kNotDirectory, "inode {} is no directory", ToInt(parent));
    }
    if (directory != nullptr) *directory = dir;
    return NoEntry(parent, name);
  }
  Entry entry{.ino = found->edge.ino, .attr = {}};
  if (found->attr) {
    entry.attr = *std::move(found->attr);
  } else {
    // The entry points nowhere. It can still be seen, and removed.
    entry.attr.type = found->edge.type;
    entry.attr.nlink = 0;
    entry.attr.parent = parent;
  }
  return entry;
}

Result<std::vector<std::optional<Entry>>> EngineMetaStore::LookupMany(
    const Context& ctx, std::span<const ChildName> children) {
  std::vector<std::optional<Edge>> edges(children.size());
  ReadSet names;
  for (std::size_t i = 0; i < children.size(); ++i) {
    names.Edge(children[i].parent, children[i].name, &edges[i]);
  }
  std::vector<std::optional<Entry>> found(children.size());
  if (names.empty()) return found;
  RETURN_IF_ERROR(engine_->ReadOnce(ctx, names));
  std::vector<std::optional<Attr>> attrs(children.size());
  ReadSet details;
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (edges[i]) details.Attr(edges[i]->ino, &attrs[i]);
  }
  if (details.empty()) return found;
  RETURN_IF_ERROR(engine_->ReadOnce(ctx, details));
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (!edges[i]) continue;
    Entry entry{.ino = edges[i]->ino, .attr = {}};
    if (attrs[i]) {
      entry.attr = *std::move(attrs[i]);
    } else {
      entry.attr.type = edges[i]->type;
      entry.attr.nlink = 0;
      entry.attr.parent = children[i].parent;
    }
    found[i] = std::move(entry);
  }
  return found;
}

Result<Entry> EngineMetaStore::Resolve(const Context& ctx, const Caller& caller, Ino base,
                                       std::string_view path) {
  Entry at{.ino = base, .attr = {}};
  bool known = false;
  while (!path.empty()) {
    const auto slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
    if (name.empty()) continue;
    ASSIGN_OR_RETURN(at, Lookup(ctx, caller, at.ino, name));
    known = true;
  }
  if (!known) {
    ASSIGN_OR_RETURN(at.attr, GetAttr(ctx, base));
  }
  return at;
}

Result<Attr> EngineMetaStore::GetAttr(const Context& ctx, Ino ino) {
  std::optional<Attr> attr;
  RETURN_IF_ERROR(engine_->ReadOnce(ctx, ReadSet().Attr(ino, &attr)));
  if (!attr) return NoInode(ino);
  return *std::move(attr);
}

Result<std::vector<std::optional<Attr>>> EngineMetaStore::GetAttrs(const Context& ctx,
                                                                   std::span<const Ino> inodes) {
  std::vector<std::optional<Attr>> attrs(inodes.size());
  ReadSet reads;
  for (std::size_t i = 0; i < inodes.size(); ++i) reads.Attr(inodes[i], &attrs[i]);
  RETURN_IF_ERROR(engine_->ReadOnce(ctx, reads));
  return attrs;
}

Result<DirPage> EngineMetaStore::ReadDir(const Context& ctx, const Caller& caller, Ino ino,
                                         std::string_view cursor, std::size_t limit,
                                         bool with_attrs) {
  if (limit == 0) return Fail(Code::kInvalid, "a page of a directory needs room for an entry");
  if (cursor.empty()) {
    ASSIGN_OR_RETURN(const Attr dir, GetAttr(ctx, ino));
    if (dir.type != FileType::kDirectory) {
      return Fail(Code::kNotDirectory, "inode {} is no directory", ToInt(ino));
    }
    RETURN_IF_ERROR(CheckAccess(caller, dir, kMayRead));
  }
  return engine_->ReadDir(ctx, ino, cursor, limit, with_attrs);
}

Result<std::string> EngineMetaStore::ReadLink(const Context& ctx, Ino ino) {
  ASSIGN_OR_RETURN(auto target, engine_->ReadSymlink(ctx, ino));
  if (target) return *std::move(target);
  ASSIGN_OR_RETURN(const Attr attr, GetAttr(ctx, ino));
  if (attr.type == FileType::kSymlink) {
    return Fail(Code::kCorrupt, "symbolic link {} has no target", ToInt(ino));
  }
  return Fail(Code::kInvalid, "inode {} is no symbolic link", ToInt(ino));
}

}  // namespace paddleop::volume
