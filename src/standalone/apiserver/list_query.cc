#include "standalone/apiserver/list_query.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/crypto.h"
#include "kube/wire/selector.h"

namespace paddleop::standalone::apiserver {
namespace {

constexpr std::size_t kMaxKept = 64;
constexpr std::chrono::minutes kKeptFor{5};

template <class T>
bool ParseNumber(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool IsTrue(const std::optional<std::string>& text) {
  return text && (*text == "true" || *text == "1" || *text == "True");
}

// The fields that a field selector speaks of.
Answer<void> CheckFields(const Kind& kind, std::string_view selector) {
  while (!selector.empty()) {
    const auto comma = selector.find(',');
    const std::string_view term = selector.substr(0, comma);
    const std::string_view name = term.substr(0, term.find_first_of("!="));
    const bool known =
        name == "metadata.name" || (name == "metadata.namespace" && kind.type.namespaced) ||
        std::find(kind.selectable.begin(), kind.selectable.end(), name) != kind.selectable.end();
    if (!known && kind.selectable.empty()) {
      return BadRequest(
          fmt::format("{} is not a known field selector: only \"metadata.name\", "
                      "\"metadata.namespace\"",
                      Quoted(name)));
    }
    if (!known) return BadRequest(fmt::format("field label not supported: {}", name));
    if (comma == std::string_view::npos) break;
    selector.remove_prefix(comma + 1);
  }
  return {};
}

}  // namespace

Answer<ListQuery> ReadListQuery(const net::ServerRequest& request, const Kind& kind,
                                const std::string& name) {
  ListQuery out;
  const std::string label_text = request.Query("labelSelector").value_or("");
  std::string field_text = request.Query("fieldSelector").value_or("");
  if (!name.empty()) {
    field_text += (field_text.empty() ? "metadata.name=" : ",metadata.name=") + name;
  }
  auto labels = kube::Selector::Parse(label_text);
  if (!labels) {
    return BadRequest(fmt::format("unable to parse requirement: {}", labels.error().message()));
  }
  RETURN_IF_ERROR(CheckFields(kind, field_text));
  auto fields = kube::Selector::Parse(field_text);
  if (!fields)
    return BadRequest(fmt::format("invalid field selector: {}", fields.error().message()));
  out.selective = !labels->empty() || !fields->empty();
  out.selects = [labels = *std::move(labels), fields = *std::move(fields)](const StoredObject& o) {
    return (labels.empty() ||
            labels.Matches([&](std::string_view label) { return o.Label(label); })) &&
           (fields.empty() ||
            fields.Matches([&](std::string_view field) { return o.Field(field); }));
  };
  if (const auto limit = request.Query("limit");
      limit && !limit->empty() && !ParseNumber(*limit, out.limit)) {
    return BadRequest(fmt::format("invalid limit {}", Quoted(*limit)));
  }
  if (const auto timeout = request.Query("timeoutSeconds"); timeout && !timeout->empty()) {
    std::int64_t seconds = 0;
    if (!ParseNumber(*timeout, seconds)) {
      return BadRequest(fmt::format("invalid timeoutSeconds {}", Quoted(*timeout)));
    }
    out.timeout_seconds = seconds;
  }
  out.continue_token = request.Query("continue").value_or("");
  out.resource_version = request.Query("resourceVersion").value_or("");
  out.watch = IsTrue(request.Query("watch"));
  out.bookmarks = IsTrue(request.Query("allowWatchBookmarks"));
  out.initial_events = IsTrue(request.Query("sendInitialEvents"));
  return out;
}

Pages::Page Pages::Cut(const std::string& id, const Kept& kept, std::size_t from,
                       std::size_t limit) {
  Page page;
  page.revision = kept.revision;
  const std::size_t end =
      limit == 0 ? kept.objects.size() : std::min(from + limit, kept.objects.size());
  page.objects.assign(kept.objects.begin() + static_cast<std::ptrdiff_t>(from),
                      kept.objects.begin() + static_cast<std::ptrdiff_t>(end));
  page.remaining = kept.objects.size() - end;
  if (page.remaining > 0) page.continue_token = Base64Encode(fmt::format("{}:{}", id, end));
  return page;
}

Pages::Page Pages::First(std::vector<ObjectPtr> objects, std::uint64_t revision,
                         std::size_t limit) {
  auto kept = std::make_shared<Kept>();
  kept->objects = std::move(objects);
  kept->revision = revision;
  if (limit == 0 || kept->objects.size() <= limit) return Cut("", *kept, 0, 0);
  const auto now = std::chrono::steady_clock::now();
  kept->end = now + kKeptFor;
  MutexLock lock(mutex_);
  std::erase_if(kept_, [&](const auto& entry) { return entry.second->end < now; });
  while (kept_.size() >= kMaxKept) kept_.erase(kept_.begin());
  const std::uint64_t id = next_++;
  kept_[id] = kept;
  return Cut(std::to_string(id), *kept, 0, limit);
}

Answer<Pages::Page> Pages::Next(const std::string& token, std::size_t limit) {
  const auto text = Base64Decode(token);
  std::uint64_t id = 0;
  std::size_t from = 0;
  const auto colon = text ? text->find(':') : std::string::npos;
  if (colon == std::string::npos || !ParseNumber(std::string_view(*text).substr(0, colon), id) ||
      !ParseNumber(std::string_view(*text).substr(colon + 1), from)) {
    return BadRequest("continue key is not valid");
  }
  std::shared_ptr<const Kept> kept;
  {
    MutexLock lock(mutex_);
    if (const auto found = kept_.find(id); found != kept_.end()) kept = found->second;
  }
  if (kept == nullptr || kept->end < std::chrono::steady_clock::now() ||
      from > kept->objects.size()) {
    return Expired(
        "The provided continue parameter is too old to display a consistent list result. "
        "You must start a new list without the continue parameter.");
  }
  return Cut(std::to_string(id), *kept, from, limit);
}

View ViewOf(const net::ServerRequest& request) {
  std::string_view accept = request.headers.Get("accept").value_or("");
  while (!accept.empty()) {
    const auto comma = accept.find(',');
    const std::string_view entry = accept.substr(0, comma);
    if (entry.find("application/json") != std::string_view::npos) {
      if (entry.find("as=Table") != std::string_view::npos) return View::kTable;
      if (entry.find("as=PartialObjectMetadata") != std::string_view::npos) return View::kMetadata;
      return View::kObject;
    }
    if (comma == std::string_view::npos) break;
    accept.remove_prefix(comma + 1);
  }
  return View::kObject;
}

}  // namespace paddleop::standalone::apiserver
