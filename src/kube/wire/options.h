// What a caller can ask of a list, a watch and a deletion.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "kube/wire/patch.h"

namespace paddleop::kube {

struct ListOptions {
  std::string label_selector;
  std::string field_selector;
  std::size_t limit = 0;       // objects on a page; 0: all
  std::string continue_token;  // of the page before; empty for the first
};

struct WatchOptions {
  std::string label_selector;
  std::string field_selector;
  std::string resource_version;  // events after this one
  bool bookmarks = true;
  // The server ends the watch after this long: a connection that died unnoticed costs no more.
  std::chrono::seconds timeout{360};
};

enum class Propagation { kServerDefault, kBackground, kForeground, kOrphan };

struct DeleteOptions {
  Propagation propagation = Propagation::kBackground;
  Preconditions preconditions;
  std::optional<std::chrono::seconds> grace_period;  // pods; unset: the pod's own
};

}  // namespace paddleop::kube
