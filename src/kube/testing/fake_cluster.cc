#include "kube/testing/fake_cluster.h"

#include <deque>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "api/meta/time.h"
#include "base/crypto.h"
#include "base/mutex.h"
#include "kube/wire/selector.h"

namespace paddleop::kube::testing {
namespace {

using Json = nlohmann::json;

struct Where {
  std::string resource;
  ObjectKey key;
  auto operator<=>(const Where&) const = default;
};

struct LoggedEvent {
  std::uint64_t version = 0;
  std::string resource;
  Json before;  // null for a new object
  Json after;   // null for one that is gone
  Json last;    // the last state of one that is gone, at the version of its deletion
  bool bookmark = false;
};

std::string Now() {
  return api::FormatTime(
      std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
}

std::string Text(const Json& object, const char* pointer) {
  const Json::json_pointer path(pointer);
  if (!object.contains(path)) return "";
  const Json& value = object.at(path);
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
}

// Label and field selectors of a list or watch, and its namespace.
class Filter {
 public:
  static Result<Filter> Create(const std::string& ns, const std::string& labels,
                               const std::string& fields) {
    Filter out;
    out.ns_ = ns;
    ASSIGN_OR_RETURN(out.labels_, Selector::Parse(labels));
    ASSIGN_OR_RETURN(out.fields_, Selector::Parse(fields));
    return out;
  }

  bool Matches(const Json& object) const {
    if (object.is_null()) return false;
    if (!ns_.empty() && Text(object, "/metadata/namespace") != ns_) return false;
    const auto label = [&](std::string_view name) -> std::optional<std::string> {
      const Json::json_pointer path("/metadata/labels/" + PointerPart(name));
      if (!object.contains(path)) return std::nullopt;
      return object.at(path).get<std::string>();
    };
    const auto field = [&](std::string_view name) -> std::optional<std::string> {
      std::string path = "/" + std::string(name);
      std::ranges::replace(path, '.', '/');
      return Text(object, path.c_str());
    };
    return labels_.Matches(label) && fields_.Matches(field);
  }

 private:
  std::string ns_;
  Selector labels_;
  Selector fields_;
};

// The parts of an object whose change raises its generation.
Json SpecOf(Json object) {
  object.erase("metadata");
  object.erase("status");
  return object;
}

Result<Json> ParseJson(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return Fail(Code::kInvalid, "the body is not a JSON object");
  return json;
}

// What the API server strips from everything it stores.
void DropNulls(Json& json) {
  if (!json.is_object()) return;
  for (auto entry = json.begin(); entry != json.end();) {
    if (entry->is_null()) {
      entry = json.erase(entry);
    } else {
      DropNulls(*entry);
      ++entry;
    }
  }
}

}  // namespace

class FakeCluster::State {
 public:
  mutable Mutex mutex;
  CondVar changed;
  std::map<Where, Json> objects GUARDED_BY(mutex);
  std::deque<LoggedEvent> log GUARDED_BY(mutex);
  std::uint64_t version GUARDED_BY(mutex) = 100;
  std::uint64_t compacted GUARDED_BY(mutex) = 0;
  std::uint64_t drops GUARDED_BY(mutex) = 0;
  std::uint64_t names GUARDED_BY(mutex) = 0;
  std::size_t watches GUARDED_BY(mutex) = 0;
  std::map<std::pair<std::string, std::string>, std::size_t> requests GUARDED_BY(mutex);

  void Count(const char* verb, const GroupVersionResource& resource) REQUIRES(mutex) {
    ++requests[{verb, ResourceName(resource)}];
  }

  Result<Json*> Find(const Where& where) REQUIRES(mutex) {
    const auto found = objects.find(where);
    if (found == objects.end())
      return Fail(Code::kNotFound, "{} \"{}\" not found", where.resource, where.key.ToString());
    return &found->second;
  }

  void Log(LoggedEvent event) REQUIRES(mutex) {
    event.version = version;
    log.push_back(std::move(event));
    changed.notify_all();
  }

  // Stores the object under a new version and tells the watches.
  const Json& Store(const Where& where, Json object) REQUIRES(mutex) {
    DropNulls(object);
    object["metadata"]["resourceVersion"] = std::to_string(++version);
    const auto [found, added] = objects.try_emplace(where);
    Json before = added ? Json() : std::move(found->second);
    found->second = std::move(object);
    Log({.resource = where.resource,
         .before = std::move(before),
         .after = found->second,
         .last = {}});
    return found->second;
  }

  void Erase(const Where& where) REQUIRES(mutex) {
    const auto found = objects.find(where);
    Json last = std::move(found->second);
    objects.erase(found);
    Json before = last;
    last["metadata"]["resourceVersion"] = std::to_string(++version);
    Log({.resource = where.resource,
         .before = std::move(before),
         .after = Json(),
         .last = std::move(last)});
  }

  // Replaces an object by what a PUT or PATCH made of it.
  Result<Json> Replace(const Where& where, Json updated, std::string_view subresource)
      REQUIRES(mutex) {
    ASSIGN_OR_RETURN(Json * current, Find(where));
    const std::string wanted = Text(updated, "/metadata/resourceVersion");
    if (!wanted.empty() && wanted != Text(*current, "/metadata/resourceVersion"))
      return Fail(Code::kConflict, "{} \"{}\": the object has been modified", where.resource,
                  where.key.ToString());
    const std::string uid = Text(updated, "/metadata/uid");
    if (!uid.empty() && uid != Text(*current, "/metadata/uid"))
      return Fail(Code::kConflict, "{} \"{}\": another UID", where.resource, where.key.ToString());
    Json result = *current;
    if (subresource == "status") {
      result["status"] = updated.value("status", Json());
    } else {
      for (const char* field : {"uid", "creationTimestamp", "deletionTimestamp", "generation"}) {
        if ((*current)["metadata"].contains(field))
          updated["metadata"][field] = (*current)["metadata"][field];
      }
      updated["status"] = current->value("status", Json());
      result = std::move(updated);
    }
    DropNulls(result);
    result["metadata"]["resourceVersion"] = (*current)["metadata"]["resourceVersion"];
    if (result == *current) return result;
    if (subresource.empty() && SpecOf(result) != SpecOf(*current))
      result["metadata"]["generation"] = (*current)["metadata"].value("generation", 1) + 1;
    Json stored = Store(where, std::move(result));
    if (stored["metadata"].contains("deletionTimestamp") &&
        stored["metadata"].value("finalizers", Json::array()).empty())
      Erase(where);
    return stored;
  }

  Result<void> Remove(const Where& where, const DeleteOptions& options) REQUIRES(mutex) {
    ASSIGN_OR_RETURN(Json * current, Find(where));
    const Preconditions& expected = options.preconditions;
    if ((!expected.uid.empty() && expected.uid != Text(*current, "/metadata/uid")) ||
        (!expected.resource_version.empty() &&
         expected.resource_version != Text(*current, "/metadata/resourceVersion")))
      return Fail(Code::kConflict, "{} \"{}\": precondition failed", where.resource,
                  where.key.ToString());
    if ((*current)["metadata"].value("finalizers", Json::array()).empty()) {
      Erase(where);
    } else if (!(*current)["metadata"].contains("deletionTimestamp")) {
      Json marked = *current;
      marked["metadata"]["deletionTimestamp"] = Now();
      Store(where, std::move(marked));
    }
    return {};
  }
};

FakeCluster::FakeCluster() : state_(std::make_unique<State>()) {}
FakeCluster::~FakeCluster() = default;

Result<RawObject> FakeCluster::Get(const Context& ctx, const GroupVersionResource& resource,
                                   const ObjectKey& key) {
  RETURN_IF_ERROR(ctx.Check());
  MutexLock lock(state_->mutex);
  state_->Count("get", resource);
  ASSIGN_OR_RETURN(const Json* found, state_->Find({ResourceName(resource), key}));
  return ParseObject(found->dump());
}

Result<ListPage> FakeCluster::List(const Context& ctx, const GroupVersionResource& resource,
                                   const std::string& ns, const ListOptions& options) {
  RETURN_IF_ERROR(ctx.Check());
  ASSIGN_OR_RETURN(const Filter filter,
                   Filter::Create(ns, options.label_selector, options.field_selector));
  MutexLock lock(state_->mutex);
  state_->Count("list", resource);
  ListPage page;
  page.resource_version = std::to_string(state_->version);
  Where after{ResourceName(resource), {}};
  // A token is "version/namespace/name": the list's version and the last object of the page before.
  if (!options.continue_token.empty()) {
    const std::string& token = options.continue_token;
    const std::size_t first = token.find('/'), second = token.find('/', first + 1);
    page.resource_version = token.substr(0, first);
    if (std::stoull(page.resource_version) < state_->compacted)
      return Fail(Code::kExpired, "the continue token is too old");
    after.key = {token.substr(first + 1, second - first - 1), token.substr(second + 1)};
  }
  for (auto entry = state_->objects.upper_bound(after); entry != state_->objects.end(); ++entry) {
    if (entry->first.resource != after.resource) break;
    if (!filter.Matches(entry->second)) continue;
    if (options.limit > 0 && page.items.size() == options.limit) {
      const RawObject& last = page.items.back();
      page.continue_token = fmt::format("{}/{}/{}", page.resource_version, last.ns, last.name);
      break;
    }
    ASSIGN_OR_RETURN(RawObject object, ParseObject(entry->second.dump()));
    page.items.push_back(std::move(object));
  }
  return page;
}

Result<RawObject> FakeCluster::Create(const Context& ctx, const GroupVersionResource& resource,
                                      const std::string& ns, std::string_view json) {
  RETURN_IF_ERROR(ctx.Check());
  ASSIGN_OR_RETURN(Json object, ParseJson(json));
  MutexLock lock(state_->mutex);
  state_->Count("create", resource);
  if (Text(object, "/kind") != resource.kind ||
      Text(object, "/apiVersion") != resource.ApiVersion())
    return Fail(Code::kInvalid, "create {}: the object is a {} of {}", ResourceName(resource),
                Text(object, "/kind"), Text(object, "/apiVersion"));
  Json& metadata = object["metadata"];
  if (resource.namespaced) {
    if (metadata.contains("namespace") && metadata["namespace"] != ns)
      return Fail(Code::kInvalid, "create {}: the object is of another namespace",
                  ResourceName(resource));
    metadata["namespace"] = ns;
  }
  if (!metadata.contains("name")) {
    if (!metadata.contains("generateName"))
      return Fail(Code::kInvalid, "create {}: name or generateName is required",
                  ResourceName(resource));
    metadata["name"] =
        metadata["generateName"].get<std::string>() + fmt::format("{:05x}", ++state_->names);
  }
  const Where where{ResourceName(resource), {resource.namespaced ? ns : "", metadata["name"]}};
  if (state_->objects.contains(where))
    return Fail(Code::kAlreadyExists, "{} \"{}\" already exists", where.resource,
                where.key.ToString());
  metadata["uid"] = RandomUuid();
  metadata["creationTimestamp"] = Now();
  metadata["generation"] = 1;
  object.erase("status");
  if (resource == kPods) object["status"] = {{"phase", "Pending"}};
  return ParseObject(state_->Store(where, std::move(object)).dump());
}

Result<RawObject> FakeCluster::Patch(const Context& ctx, const GroupVersionResource& resource,
                                     const ObjectKey& key, const ObjectPatch& patch) {
  RETURN_IF_ERROR(ctx.Check());
  ASSIGN_OR_RETURN(const std::string body, PatchBody(patch));
  const Json changes = Json::parse(body, nullptr, false);
  if (changes.is_discarded())
    return Fail(Code::kInvalid, "patch {}: not JSON", ResourceName(resource));
  MutexLock lock(state_->mutex);
  state_->Count("patch", resource);
  const Where where{ResourceName(resource), key};
  ASSIGN_OR_RETURN(Json * current, state_->Find(where));
  Json updated = *current;
  // Without a version in the patch it applies to whatever is there.
  updated["metadata"].erase("resourceVersion");
  if (patch.type == PatchType::kJson) {
    try {
      updated = current->patch(changes);
    } catch (const Json::exception& e) {
      // 501 is nlohmann's "unsuccessful test operation".
      return Fail(e.id == 501 ? Code::kConflict : Code::kInvalid, "patch {} {}: {}",
                  ResourceName(resource), key.ToString(), e.what());
    }
  } else if (patch.type == PatchType::kMerge) {
    updated.merge_patch(changes);
  } else {
    return Fail(Code::kNotSupported, "the fake cluster knows no strategic merge patch");
  }
  ASSIGN_OR_RETURN(const Json stored,
                   state_->Replace(where, std::move(updated), patch.subresource));
  return ParseObject(stored.dump());
}

Result<RawObject> FakeCluster::Update(const Context& ctx, const GroupVersionResource& resource,
                                      const ObjectKey& key, std::string_view json,
                                      std::string_view subresource) {
  RETURN_IF_ERROR(ctx.Check());
  ASSIGN_OR_RETURN(Json object, ParseJson(json));
  MutexLock lock(state_->mutex);
  state_->Count("update", resource);
  ASSIGN_OR_RETURN(const Json stored,
                   state_->Replace({ResourceName(resource), key}, std::move(object), subresource));
  return ParseObject(stored.dump());
}

Result<RawObject> FakeCluster::CreateSubresource(const Context& ctx,
                                                 const GroupVersionResource& resource,
                                                 const ObjectKey& key, std::string_view subresource,
                                                 std::string_view json) {
  RETURN_IF_ERROR(ctx.Check());
  ASSIGN_OR_RETURN(const Json binding, ParseJson(json));
  if (!(resource == kPods) || subresource != "binding")
    return Fail(Code::kNotSupported, "the fake cluster knows no {}", subresource);
  MutexLock lock(state_->mutex);
  state_->Count("create", resource);
  const Where where{ResourceName(resource), key};
  ASSIGN_OR_RETURN(Json * current, state_->Find(where));
  Json bound = *current;
  if (!bound["spec"].value("nodeName", "").empty())
    return Fail(Code::kConflict, "pod {} is already assigned to a node", key.ToString());
  bound["spec"]["nodeName"] = binding["target"]["name"];
  ASSIGN_OR_RETURN(const Json stored, state_->Replace(where, std::move(bound), ""));
  return ParseObject(stored.dump());
}

Result<void> FakeCluster::Delete(const Context& ctx, const GroupVersionResource& resource,
                                 const ObjectKey& key, const DeleteOptions& options) {
  RETURN_IF_ERROR(ctx.Check());
  MutexLock lock(state_->mutex);
  state_->Count("delete", resource);
  return state_->Remove({ResourceName(resource), key}, options);
}

Result<void> FakeCluster::Watch(const Context& ctx, const GroupVersionResource& resource,
                                const std::string& ns, const WatchOptions& options,
                                const WatchSink& sink) {
  RETURN_IF_ERROR(ctx.Check());
  ASSIGN_OR_RETURN(const Filter filter,
                   Filter::Create(ns, options.label_selector, options.field_selector));
  const std::string name = ResourceName(resource);
  const auto end = std::chrono::steady_clock::now() + options.timeout;
  MutexLock lock(state_->mutex);
  state_->Count("watch", resource);
  std::uint64_t seen =
      options.resource_version.empty() ? state_->version : std::stoull(options.resource_version);
  if (seen < state_->compacted) return Fail(Code::kExpired, "version {} is too old", seen);
  const std::uint64_t drops = state_->drops;
  struct Open {
    std::size_t& count;
    ~Open() { --count; }
  };
  const Open open{++state_->watches};
  std::uint64_t next = 0;  // position in the log, counted from its very beginning
  for (;;) {
    std::optional<WatchEvent> event;
    while (!event && next < state_->log.size()) {
      const LoggedEvent& logged = state_->log[next++];
      if (logged.version <= seen || logged.resource != name) {
        if (!logged.bookmark || !options.bookmarks || logged.version < seen) continue;
      }
      const bool was = filter.Matches(logged.before), is = filter.Matches(logged.after);
      if (!logged.bookmark && !was && !is) continue;
      const Json body =
          logged.bookmark
              ? Json{{"metadata", {{"resourceVersion", std::to_string(logged.version)}}}}
              : (is ? logged.after : (logged.after.is_null() ? logged.last : logged.after));
      ASSIGN_OR_RETURN(RawObject object, ParseObject(body.dump()));
      event = WatchEvent{logged.bookmark ? WatchEventType::kBookmark
                         : !is           ? WatchEventType::kDeleted
                         : was           ? WatchEventType::kModified
                                         : WatchEventType::kAdded,
                         std::move(object)};
      seen = logged.version;
    }
    if (event) {
      lock.unlock();
      auto taken = sink(*std::move(event));
      lock.lock();
      if (!taken) return taken;
      continue;
    }
    if (state_->drops != drops) return Fail(Code::kUnavailable, "watch {}: connection reset", name);
    if (ctx.Stopped()) return Fail(Code::kCancelled, "watch {}: stopped", name);
    if (ctx.Expired()) return Fail(Code::kDeadline, "watch {}: deadline", name);
    if (std::chrono::steady_clock::now() >= end) return {};
    state_->changed.wait_until(lock, ctx.stop(), std::min(end, ctx.deadline()),
                               [&]() REQUIRES(state_->mutex) {
                                 return next < state_->log.size() || state_->drops != drops;
                               });
  }
}

Result<RawObject> FakeCluster::SetStatus(const GroupVersionResource& resource, const ObjectKey& key,
                                         std::string_view status_json) {
  const Json status = Json::parse(status_json, nullptr, false);
  if (!status.is_object()) return Fail(Code::kInvalid, "status is not a JSON object");
  MutexLock lock(state_->mutex);
  const Where where{ResourceName(resource), key};
  ASSIGN_OR_RETURN(Json * current, state_->Find(where));
  Json updated = *current;
  updated.merge_patch(Json{{"status", status}});
  ASSIGN_OR_RETURN(const Json stored, state_->Replace(where, std::move(updated), "status"));
  return ParseObject(stored.dump());
}

std::size_t FakeCluster::CollectGarbage() {
  MutexLock lock(state_->mutex);
  std::size_t removed = 0;
  for (bool again = true; again;) {
    again = false;
    std::set<std::string> uids;
    for (const auto& [where, object] : state_->objects) uids.insert(Text(object, "/metadata/uid"));
    std::vector<Where> orphans;
    for (const auto& [where, object] : state_->objects) {
      const Json owners = object["metadata"].value("ownerReferences", Json::array());
      const bool owned = std::ranges::any_of(
          owners, [&](const Json& owner) { return uids.contains(owner.value("uid", "")); });
      const bool deleting = object["metadata"].contains("deletionTimestamp");
      if (!owners.empty() && !owned && !deleting) orphans.push_back(where);
    }
    for (const Where& where : orphans) {
      if (state_->Remove(where, {})) ++removed;
      again = true;
    }
  }
  return removed;
}

void FakeCluster::DropWatches() {
  MutexLock lock(state_->mutex);
  ++state_->drops;
  state_->changed.notify_all();
}

void FakeCluster::Compact() {
  MutexLock lock(state_->mutex);
  state_->compacted = ++state_->version;
}

void FakeCluster::SendBookmarks() {
  MutexLock lock(state_->mutex);
  state_->Log({.resource = {}, .before = {}, .after = {}, .last = {}, .bookmark = true});
}

std::size_t FakeCluster::Requests(std::string_view verb,
                                  const GroupVersionResource* resource) const {
  MutexLock lock(state_->mutex);
  std::size_t count = 0;
  for (const auto& [what, times] : state_->requests) {
    if (what.first == verb && (resource == nullptr || what.second == ResourceName(*resource)))
      count += times;
  }
  return count;
}

std::size_t FakeCluster::Requests() const {
  MutexLock lock(state_->mutex);
  std::size_t count = 0;
  for (const auto& [what, times] : state_->requests) {
    if (what.first != "watch") count += times;
  }
  return count;
}

std::size_t FakeCluster::open_watches() const {
  MutexLock lock(state_->mutex);
  return state_->watches;
}

std::size_t FakeCluster::size(const GroupVersionResource& resource) const {
  MutexLock lock(state_->mutex);
  const std::string name = ResourceName(resource);
  return static_cast<std::size_t>(std::ranges::count_if(
      state_->objects, [&](const auto& entry) { return entry.first.resource == name; }));
}

}  // namespace paddleop::kube::testing
