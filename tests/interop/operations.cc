#include "interop/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <utility>

#include "base/bytes.h"

namespace paddleop::testing {
namespace {

using volume::Caller;
using volume::kRootIno;

// Bytes that tell where they came from.
std::string VictimBytes(std::uint64_t id, std::size_t size) {
  std::string bytes(size, '\0');
  std::uint64_t state = id * 0x9E3779B97F4A7C15ULL + 1;
  for (std::size_t at = 0; at < size; at += sizeof state) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(bytes.data() + at, &state, std::min(sizeof state, size - at));
  }
  return bytes;
}

}  // namespace

Model::Model(const Model& other) {
  std::map<const std::string*, Content> copies;
  for (const auto& [name, content] : other.files_) {
    auto& copy = copies[content.get()];
    if (copy == nullptr) copy = std::make_shared<std::string>(*content);
    files_[name] = copy;
  }
}

void Model::Apply(const std::string& line) {
  std::istringstream in(line);
  std::string operation;
  std::string name;
  in >> operation >> name;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
  std::string target;
  if (operation == "put") {
    in >> a >> b;
    files_[name] = std::make_shared<std::string>(VictimBytes(a, b));
  } else if (operation == "poke") {
    in >> a >> b >> c;
    std::string& content = *files_.at(name);
    if (content.size() < a + c) content.resize(a + c);
    content.replace(a, c, VictimBytes(b, c));
  } else if (operation == "cut") {
    in >> a;
    files_.at(name)->resize(a);
  } else if (operation == "move") {
    in >> target;
    const Content content = files_.at(name);
    // Renaming a file over another name of itself changes nothing.
    if (files_.contains(target) && files_.at(target) == content) return;
    files_.erase(name);
    files_[target] = content;
  } else if (operation == "link") {
    in >> target;
    files_[target] = files_.at(name);
  } else if (operation == "remove" || operation == "hold") {
    files_.erase(name);
  } else if (operation == "pack") {
    in >> a >> b;
    const std::string bytes = VictimBytes(a, b * kPackedSize);
    for (std::uint64_t i = 0; i < b; ++i) {
      files_[name + "/p" + std::to_string(i)] =
          std::make_shared<std::string>(bytes.substr(i * kPackedSize, kPackedSize));
    }
  } else if (operation == "rmr") {
    std::erase_if(files_, [&](const auto& file) { return file.first.starts_with(name + "/"); });
  }
}

std::string Model::Differs(const std::map<std::string, std::string>& found) const {
  for (const auto& [name, content] : files_) {
    const auto at = found.find(name);
    if (at == found.end()) return name + " is missing";
    if (at->second != *content) {
      return fmt::format("{}: {} bytes instead of {}, or other content", name, at->second.size(),
                         content->size());
    }
  }
  for (const auto& [name, content] : found) {
    if (!files_.contains(name)) return name + " should not be there";
  }
  return "";
}

bool Model::HasDirectory(const std::string& name) const {
  const auto at = files_.lower_bound(name + "/");
  return at != files_.end() && at->first.starts_with(name + "/");
}

std::vector<std::string> Script::Make(Model model, int count) {
  std::vector<std::string> lines;
  while (std::cmp_less(lines.size(), count)) {
    const std::string line = Next(model);
    if (line.empty()) continue;
    model.Apply(line);
    lines.push_back(line);
  }
  return lines;
}

std::string Script::Next(const Model& model) {
  const std::string name = "f" + std::to_string(Below(8));
  const std::string other = "f" + std::to_string(Below(8));
  const std::string directory = "d" + std::to_string(Below(3));
  const bool there = model.Has(name);
  switch (Below(10)) {
    case 0:
    case 1:
    case 2:
      return fmt::format("put {} {} {}", name, ++id_, Below(150'000));
    case 3:
      if (!there) return "";
      return fmt::format("poke {} {} {} {}", name, Below(model.SizeOf(name) + 1), ++id_,
                         1 + Below(100'000));
    case 4:
      return there ? fmt::format("cut {} {}", name, Below(200'000)) : "";
    case 5:
      return there && name != other ? fmt::format("move {} {}", name, other) : "";
    case 6:
      return there && !model.Has(other) ? fmt::format("link {} {}", name, other) : "";
    case 7:
      return there ? "remove " + name : "";
    case 8:
      return there ? "hold " + name : "";
    default:
      if (model.HasDirectory(directory)) return "rmr " + directory;
      return fmt::format("pack {} {} {}", directory, ++id_, 2 + Below(12));
  }
}

Player::Player(Context ctx, volume::Volume& volume)
    : ctx_(std::move(ctx)), volume_(volume), view_(MakeVolumeView(volume)) {}

Result<void> Player::Run(const std::string& line) {
  std::istringstream in(line);
  std::string operation;
  std::string name;
  in >> operation >> name;
  if (operation == "put") {
    std::uint64_t id = 0;
    std::size_t size = 0;
    in >> id >> size;
    RETURN_IF_ERROR(view_->Write("new", 0, VictimBytes(id, size)));
    return view_->Rename("new", name);
  }
  if (operation == "poke") {
    std::uint64_t offset = 0;
    std::uint64_t id = 0;
    std::size_t size = 0;
    in >> offset >> id >> size;
    return view_->Write(name, offset, VictimBytes(id, size));
  }
  if (operation == "cut") {
    std::uint64_t length = 0;
    in >> length;
    return view_->Truncate(name, length);
  }
  if (operation == "move" || operation == "link") {
    std::string target;
    in >> target;
    return operation == "move" ? view_->Rename(name, target) : view_->Link(name, target);
  }
  if (operation == "remove") return view_->Unlink(name);
  if (operation == "hold") return Hold(name);
  if (operation == "pack") {
    std::uint64_t id = 0;
    std::uint32_t count = 0;
    in >> id >> count;
    return Pack(name, id, count);
  }
  if (operation == "rmr") {
    RETURN_IF_ERROR(volume_.meta().RemoveTree(ctx_, Caller(), kRootIno, name, {}));
    return {};
  }
  return Fail(Code::kInvalid, "unknown operation {}", line);
}

Result<void> Player::Hold(const std::string& name) {
  ASSIGN_OR_RETURN(const auto entry, volume_.meta().Lookup(ctx_, Caller(), kRootIno, name));
  RETURN_IF_ERROR(volume_.vfs().Open(ctx_, Caller(), entry.ino, {.read = true}));
  return view_->Unlink(name);
}

Result<void> Player::Pack(const std::string& name, std::uint64_t id, std::uint32_t count) {
  ASSIGN_OR_RETURN(const auto directory,
                   volume_.meta().Mkdir(ctx_, Caller(), kRootIno, name, 0755));
  const auto size = static_cast<std::uint32_t>(count * kPackedSize);
  ASSIGN_OR_RETURN(const std::uint64_t slice, volume_.meta().NewSliceId(ctx_));
  const std::string bytes = VictimBytes(id, size);
  const auto block = volume_.blocks().BlockOf({.id = slice, .size = size}, 0);
  RETURN_IF_ERROR(volume_.blocks().WriteBlock(ctx_, block, AsBytes(bytes)));
  std::vector<volume::NewFile> files(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    files[i].parent = directory.ino;
    files[i].name = "p" + std::to_string(i);
    files[i].length = kPackedSize;
    files[i].chunks = {{.index = 0,
                        .slices = {{.pos = 0,
                                    .id = slice,
                                    .size = size,
                                    .off = static_cast<std::uint32_t>(i * kPackedSize),
                                    .len = kPackedSize}}}};
  }
  for (auto& answer : volume_.meta().CommitFiles(ctx_, files, {})) RETURN_IF_ERROR(answer);
  return {};
}

Result<std::map<std::string, std::string>> FilesOf(volume::Volume& volume) {
  ASSIGN_OR_RETURN(auto all, MakeVolumeView(volume)->Snapshot());
  std::map<std::string, std::string> files;
  for (auto& [name, facts] : all) {
    if (facts.type == 'f' && name != "new") files[name] = std::move(facts.content);
  }
  return files;
}

Result<void> SettleInterrupted(const Context& ctx, volume::Volume& volume, const std::string& line,
                               Model& model) {
  ASSIGN_OR_RETURN(const auto found, FilesOf(volume));
  Model after(model);
  after.Apply(line);
  const std::string from_before = model.Differs(found);
  const std::string from_after = after.Differs(found);
  const bool removal = line.starts_with("rmr");
  if (!removal && !from_before.empty() && !from_after.empty()) {
    return Fail(Code::kCorrupt, "'{}': neither as before ({}) nor as after ({})", line, from_before,
                from_after);
  }
  const auto gone = [](const auto& removed) {
    return removed || removed.error().code() == Code::kNotFound;
  };
  auto left = volume.meta().Unlink(ctx, {}, kRootIno, "new");
  if (!gone(left)) return left;
  if (removal || (line.starts_with("pack") && !from_after.empty())) {
    std::istringstream in(line);
    std::string name;
    in >> name >> name;
    auto removed = volume.meta().RemoveTree(ctx, {}, kRootIno, name, {});
    if (!gone(removed)) return std::unexpected(removed.error());
  }
  if (removal || from_after.empty()) model = std::move(after);
  ASSIGN_OR_RETURN(const auto settled, FilesOf(volume));
  const std::string differs = model.Differs(settled);
  if (!differs.empty()) return Fail(Code::kCorrupt, "after '{}': {}", line, differs);
  return {};
}

}  // namespace paddleop::testing
