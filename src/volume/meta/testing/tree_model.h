#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "volume/format/types.h"
#include "volume/meta/meta_types.h"

namespace paddleop::volume::testing {

// A file tree reduced to what a test compares: names, types, link counts, and for each byte of a
// file which byte of which slice it shows. Every operation says whether it may happen.
class TreeModel {
 public:
  struct Byte {
    std::uint64_t slice = 0;
    std::uint32_t offset = 0;
    bool operator==(const Byte&) const = default;
  };
  struct Node {
    FileType type = FileType::kFile;
    int links = 0;
    std::string target;
    std::vector<Byte> bytes;
    std::map<std::string, std::shared_ptr<Node>> children;
  };
  using NodePtr = std::shared_ptr<Node>;

  TreeModel() : root_(std::make_shared<Node>()) { root_->type = FileType::kDirectory; }

  const NodePtr& root() const { return root_; }

  bool Make(const NodePtr& dir, const std::string& name, FileType type, std::string target = "");
  bool Link(const NodePtr& file, const NodePtr& dir, const std::string& name);
  bool Remove(const NodePtr& dir, const std::string& name, bool directory);
  bool Rename(const NodePtr& from, const std::string& old_name, const NodePtr& to,
              const std::string& new_name, RenameMode mode);
  static void Write(const NodePtr& file, std::size_t at, std::uint64_t slice, std::size_t size);
  static void Truncate(const NodePtr& file, std::size_t length);
  static void Zero(const NodePtr& file, std::size_t at, std::size_t size);
  static void Copy(const NodePtr& from, std::size_t at, const NodePtr& to, std::size_t target,
                   std::size_t size);

 private:
  static bool Contains(const NodePtr& tree, const NodePtr& node);

  NodePtr root_;
};

}  // namespace paddleop::volume::testing
