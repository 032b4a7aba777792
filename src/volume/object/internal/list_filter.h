#pragma once

#include <string>
#include <string_view>

#include "volume/object/object_store.h"

namespace paddleop::volume::object::internal {

// Applies ListOptions to entries that come in key order, for stores that do not do so themselves.
class ListFilter {
 public:
  ListFilter(const ListOptions& options, const ListVisitor& visit)
      : options_(options), visit_(visit) {}

  // Whether any key that begins with `start` could still be shown: whole subtrees are skipped with
  // it.
  bool MayContain(std::string_view start) const;
  // Whether this key would be shown; asked before the cost of finding out its size.
  bool Wants(std::string_view key) const;
  // Shows the entry, or the prefix it is rolled up into, or nothing. False: the listing is over.
  Result<bool> Offer(ObjectInfo& entry);

 private:
  // The rolled-up form of `key`, or "" if it stands for itself.
  std::string_view RollUp(std::string_view key) const;

  const ListOptions& options_;
  const ListVisitor& visit_;
  std::string last_prefix_;
  std::uint64_t shown_ = 0;
};

}  // namespace paddleop::volume::object::internal
