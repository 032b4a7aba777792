// Lists and watches.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <charconv>
#include <random>

#include "standalone/apiserver/event_forms.h"
#include "standalone/apiserver/handlers.h"
#include "standalone/apiserver/table.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

// As kube-apiserver: a watch without a wish of its own lasts 30 to 60 minutes.
std::chrono::seconds WatchTime(const std::optional<std::int64_t>& wish) {
  constexpr std::int64_t kMost = 24L * 3600;
  if (wish && *wish > 0) return std::chrono::seconds(std::min(*wish, kMost));
  static thread_local std::minstd_rand random{std::random_device{}()};
  return std::chrono::seconds(std::uniform_int_distribution<int>(1800, 3600)(random));
}

RowObject RowsWith(const net::ServerRequest& request) {
  const auto with = request.Query("includeObject").value_or("");
  if (with == "None") return RowObject::kNone;
  return with == "Object" ? RowObject::kObject : RowObject::kMetadata;
}

Json ListMeta(const Pages::Page& page, bool selective) {
  Json meta = {{"resourceVersion", std::to_string(page.revision)}};
  if (!page.continue_token.empty()) {
    meta["continue"] = page.continue_token;
    if (!selective) meta["remainingItemCount"] = page.remaining;
  }
  return meta;
}

std::string PlainList(const Kind& kind, const Pages::Page& page, const Json& meta) {
  std::string out = fmt::format(R"({{"apiVersion":"{}","items":[)", kind.type.ApiVersion());
  std::size_t size = out.size() + 256;
  for (const ObjectPtr& object : page.objects) size += object->json.size() + 1;
  out.reserve(size);
  for (std::size_t i = 0; i < page.objects.size(); ++i) {
    if (i > 0) out += ',';
    out += page.objects[i]->json;
  }
  out += fmt::format(R"(],"kind":"{}List","metadata":{}}})", kind.type.kind, meta.dump());
  return out + "\n";
}

// Changes come in the form that is stored.
void ShowInItsForm(WatchRequest& watch) {
  const Kind* const kind = watch.kind;
  if (!kind->other_form()) return;
  watch.selects = [kind, inner = std::move(watch.selects)](const StoredObject& object) {
    return inner(object.kind == kind ? object : *ShownAs(*kind, object));
  };
  watch.render = [kind, inner = std::move(watch.render)](const StoredObject& object) {
    return inner(object.kind == kind ? object : *ShownAs(*kind, object));
  };
}

}  // namespace

Handlers::Response Handlers::List(const net::ServerRequest& request, const ResourcePath& path) {
  ASSIGN_OR_RETURN(ListQuery query, ReadListQuery(request, *path.kind, ""));
  if (query.watch) return Watch(request, path, std::move(query));
  Pages::Page page;
  if (query.continue_token.empty()) {
    auto all = parts_.objects->List(*path.kind, path.ns);
    if (query.selective) {
      std::erase_if(all.objects, [&](const ObjectPtr& object) { return !query.selects(*object); });
    }
    page = pages_.First(std::move(all.objects), all.revision, query.limit);
  } else {
    ASSIGN_OR_RETURN(page, pages_.Next(query.continue_token, query.limit));
  }
  const Json meta = ListMeta(page, query.selective);
  switch (ViewOf(request)) {
    case View::kTable: {
      Json table = MakeTable(*path.kind, page.objects, RowsWith(request), parts_.clock->WallNow());
      table["metadata"] = meta;
      return net::ServerResponse::Json(200, api::DumpJson(table));
    }
    case View::kMetadata: {
      Json items = Json::array();
      for (const ObjectPtr& object : page.objects) items.push_back(PartialObject(*object));
      return net::ServerResponse::Json(200, api::DumpJson({{"kind", "PartialObjectMetadataList"},
                                                           {"apiVersion", "meta.k8s.io/v1"},
                                                           {"metadata", meta},
                                                           {"items", std::move(items)}}));
    }
    case View::kObject:
      break;
  }
  return net::ServerResponse::Json(200, PlainList(*path.kind, page, meta));
}

Handlers::Response Handlers::Watch(const net::ServerRequest& request, const ResourcePath& path,
                                   ListQuery query) {
  WatchRequest watch;
  watch.kind = path.kind;
  watch.ns = path.ns;
  watch.bookmarks = query.bookmarks;
  watch.end = std::chrono::steady_clock::now() + WatchTime(query.timeout_seconds);
  const bool from_now = query.resource_version.empty() || query.resource_version == "0";
  if (from_now || query.initial_events) {
    auto all = parts_.objects->List(*path.kind, path.ns);
    watch.after = all.revision;
    if (query.selective) {
      std::erase_if(all.objects, [&](const ObjectPtr& object) { return !query.selects(*object); });
    }
    watch.initial = std::move(all.objects);
    watch.initial_bookmark = query.initial_events && query.bookmarks;
  } else {
    const std::string& text = query.resource_version;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), watch.after);
    if (error != std::errc() || end != text.data() + text.size()) {
      return BadRequest(fmt::format("invalid resourceVersion {}", Quoted(text)));
    }
    // Too old a version is told as an event, as kube-apiserver does.
  }
  watch.selects = std::move(query.selects);
  std::string type = "application/json";
  switch (ViewOf(request)) {
    case View::kTable:
      type = "application/json;as=Table;v=v1;g=meta.k8s.io";
      watch.render = [with = RowsWith(request), clock = parts_.clock](const StoredObject& object) {
        return MakeTableText(*object.kind, object, with, clock->WallNow());
      };
      break;
    case View::kMetadata:
      watch.render = [](const StoredObject& object) {
        return api::DumpJson(PartialObject(object));
      };
      break;
    case View::kObject:
      watch.render = [](const StoredObject& object) { return object.json; };
      break;
  }
  ShowInItsForm(watch);
  net::ServerResponse response;
  response.headers.Set("Content-Type", type);
  response.stream = [hub = parts_.watches, wish = std::make_shared<WatchRequest>(std::move(watch))](
                        std::shared_ptr<net::ResponseStream> stream) {
    hub->Add(std::move(*wish), std::move(stream));
  };
  return response;
}

}  // namespace paddleop::standalone::apiserver
