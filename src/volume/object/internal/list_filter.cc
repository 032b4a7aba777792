#include "volume/object/internal/list_filter.h"

#include <algorithm>
#include <utility>

namespace paddleop::volume::object::internal {

std::string_view ListFilter::RollUp(std::string_view key) const {
  if (options_.delimiter.empty()) return "";
  const std::size_t at = key.find(options_.delimiter, options_.prefix.size());
  if (at == key.npos) return "";
  return key.substr(0, at + options_.delimiter.size());
}

bool ListFilter::MayContain(std::string_view start) const {
  const std::string_view prefix = options_.prefix, after = options_.start_after;
  const std::size_t common = std::min(start.size(), prefix.size());
  if (start.substr(0, common) != prefix.substr(0, common)) return false;
  const std::string_view rolled = RollUp(start);
  if (!rolled.empty()) return rolled > after && rolled != last_prefix_;
  return start > after || after.starts_with(start);
}

bool ListFilter::Wants(std::string_view key) const {
  if (!key.starts_with(options_.prefix)) return false;
  const std::string_view rolled = RollUp(key);
  if (rolled.empty()) return key > options_.start_after;
  return rolled > options_.start_after && rolled != last_prefix_;
}

Result<bool> ListFilter::Offer(ObjectInfo& entry) {
  if (!Wants(entry.key)) return true;
  const std::string_view rolled = RollUp(entry.key);
  Result<bool> more = true;
  if (rolled.empty()) {
    more = visit_(entry);
  } else {
    last_prefix_ = rolled;
    ObjectInfo prefix{.key = last_prefix_, .size = 0, .mtime = {}, .etag = {}, .is_prefix = true};
    more = visit_(prefix);
  }
  if (!more || !*more) return more;
  return options_.limit == 0 || ++shown_ < options_.limit;
}

}  // namespace paddleop::volume::object::internal
