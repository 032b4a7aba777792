#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "base/context.h"
#include "volume/format/object_key.h"
#include "volume/meta/meta_store.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::data {

struct GcOptions {
  bool delete_leaked = false;
  // Younger objects are left alone: a client may have stored them and not yet committed.
  std::chrono::seconds min_age{3600};
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
};

struct GcReport {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  std::uint64_t leaked_objects = 0;
  std::uint64_t leaked_bytes = 0;
  std::uint64_t skipped_objects = 0;  // would be leaked, but are too young
  std::uint64_t deleted_objects = 0;
  std::uint64_t failed_objects = 0;
  std::uint64_t pending_files = 0;   // removed files whose data is still to be deleted
  std::uint64_t pending_slices = 0;  // slices without references that are still there
};

// Finds objects that nothing in the volume refers to. With `delete_leaked` they are deleted, after
// what removed files left behind.
Result<GcReport> CollectGarbage(const Context& ctx, MetaStore& meta, object::ObjectStore& objects,
                                const BlockLayout& layout, const GcOptions& options);

}  // namespace paddleop::volume::data
