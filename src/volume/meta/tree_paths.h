#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "volume/meta/tree.h"

namespace paddleop::volume {

// Where the files of a tree lie: found at once, for four bytes each. Thread-safe to read.
class TreePaths {
 public:
  explicit TreePaths(const Tree& tree);

  // The path below the root of `tree`, which this was made of; "." for the root, empty if it is not
  // below it.
  std::string Of(const Tree& tree, Tree::NodeIndex node) const;

 private:
  std::vector<std::uint32_t> places_;  // of each node among the children of its parent
};

}  // namespace paddleop::volume
