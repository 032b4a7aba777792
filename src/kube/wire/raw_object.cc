#include "kube/wire/raw_object.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>

#include "kube/wire/status_reply.h"
#include "kube/wire/watch_event.h"

namespace paddleop::kube {
namespace {

namespace ondemand = simdjson::ondemand;

// A text with the readable bytes behind it that simdjson wants.
class PaddedText {
 public:
  explicit PaddedText(std::string_view text) {
    buffer_.reserve(text.size() + simdjson::SIMDJSON_PADDING);
    buffer_.assign(text);
  }
  explicit PaddedText(std::string&& text) : buffer_(std::move(text)) {
    buffer_.reserve(buffer_.size() + simdjson::SIMDJSON_PADDING);
  }
  simdjson::padded_string_view view() const {
    return simdjson::padded_string_view(buffer_.data(), buffer_.size(),
                                        buffer_.size() + simdjson::SIMDJSON_PADDING);
  }

 private:
  std::string buffer_;
};

// Collects the first error of many small reads, so that each need not be looked at.
class Errors {
 public:
  bool Ok(simdjson::error_code error, std::string_view field) {
    if (error == simdjson::SUCCESS) return true;
    if (where_.empty()) {
      where_ = field;
      error_ = error;
    }
    return false;
  }
  bool any() const { return !where_.empty(); }
  Status ToStatus(std::string_view what) const {
    return Status(Code::kInvalid,
                  fmt::format("{}: {}: {}", what, where_, simdjson::error_message(error_)));
  }

 private:
  std::string where_;
  simdjson::error_code error_ = simdjson::SUCCESS;
};

void ReadString(ondemand::value value, std::string& out, std::string_view field, Errors& errors) {
  std::string_view text;
  if (errors.Ok(value.get_string().get(text), field)) out = text;
}

void ReadBool(ondemand::value value, bool& out, std::string_view field, Errors& errors) {
  bool got = false;
  if (errors.Ok(value.get_bool().get(got), field)) out = got;
}

// A member of an object: where its key begins in the text, and its value.
struct Member {
  const char* begin = nullptr;
  ondemand::field field;

  ondemand::value value() { return field.value(); }
};

// Calls each(key, member) for the members of an object.
template <class Each>
void ForMembers(ondemand::object& object, std::string_view field, Errors& errors,
                const Each& each) {
  for (auto entry : object) {
    Member member;
    if (!errors.Ok(std::move(entry).get(member.field), field)) return;
    member.begin = member.field.key().raw() - 1;  // the key cannot be asked for twice
    std::string_view key;
    if (!errors.Ok(member.field.unescaped_key().get(key), field)) return;
    each(key, member);
    if (errors.any()) return;
  }
}

// As ForMembers; null counts as an empty object.
template <class Each>
void ForFields(ondemand::value value, std::string_view field, Errors& errors, const Each& each) {
  if (value.is_null()) return;
  ondemand::object object;
  if (errors.Ok(value.get_object().get(object), field)) ForMembers(object, field, errors, each);
}

// Reads a text that is one object, and nothing after it.
template <class Each>
Result<void> ForRoot(ondemand::parser& parser, simdjson::padded_string_view text,
                     std::string_view what, const Each& each) {
  Errors errors;
  ondemand::document document;
  ondemand::object root;
  if (errors.Ok(parser.iterate(text).get(document), "text") &&
      errors.Ok(document.get_object().get(root), "text")) {
    ForMembers(root, "object", errors,
               [&](std::string_view key, Member& member) { each(key, member, errors); });
    if (!errors.any() && document.current_location().error() == simdjson::SUCCESS)
      return Fail(Code::kInvalid, "{}: something follows the object", what);
  }
  if (errors.any()) return std::unexpected(errors.ToStatus(what));
  return {};
}

template <class Each>
void ForItems(ondemand::value value, std::string_view field, Errors& errors, const Each& each) {
  if (value.is_null()) return;
  ondemand::array array;
  if (!errors.Ok(value.get_array().get(array), field)) return;
  for (auto entry : array) {
    ondemand::value item;
    if (!errors.Ok(std::move(entry).get(item), field)) return;
    each(item);
    if (errors.any()) return;
  }
}

void ReadOwner(ondemand::value value, RawObject& out, Errors& errors) {
  OwnerReference owner;
  ForFields(value, "metadata.ownerReferences", errors, [&](std::string_view key, Member& member) {
    if (key == "apiVersion") ReadString(member.value(), owner.api_version, key, errors);
    if (key == "kind") ReadString(member.value(), owner.kind, key, errors);
    if (key == "name") ReadString(member.value(), owner.name, key, errors);
    if (key == "uid") ReadString(member.value(), owner.uid, key, errors);
    if (key == "controller") ReadBool(member.value(), owner.controller, key, errors);
    if (key == "blockOwnerDeletion")
      ReadBool(member.value(), owner.block_owner_deletion, key, errors);
  });
  out.owners.push_back(std::move(owner));
}

// Where a member lies in the text, its key included.
struct Span {
  const char* begin = nullptr;
  const char* end = nullptr;
};

void ReadMetadataField(std::string_view key, Member& member, RawObject& out, Span& managed,
                       Errors& errors) {
  ondemand::value value = member.value();
  if (key == "name") return ReadString(value, out.name, "metadata.name", errors);
  if (key == "namespace") return ReadString(value, out.ns, "metadata.namespace", errors);
  if (key == "uid") return ReadString(value, out.uid, "metadata.uid", errors);
  if (key == "resourceVersion")
    return ReadString(value, out.resource_version, "metadata.resourceVersion", errors);
  if (key == "generation") {
    std::int64_t generation = 0;
    if (errors.Ok(value.get_int64().get(generation), "metadata.generation"))
      out.generation = generation;
    return;
  }
  if (key == "deletionTimestamp") {
    out.deleting = !value.is_null();
    return;
  }
  if (key == "labels") {
    return ForFields(value, "metadata.labels", errors, [&](std::string_view label, Member& entry) {
      std::string name(label), text;
      ReadString(entry.value(), text, "metadata.labels", errors);
      out.labels.emplace_back(std::move(name), std::move(text));
    });
  }
  if (key == "ownerReferences") {
    return ForItems(value, "metadata.ownerReferences", errors,
                    [&](ondemand::value item) { ReadOwner(item, out, errors); });
  }
  if (key == "finalizers") {
    return ForItems(value, "metadata.finalizers", errors, [&](ondemand::value item) {
      ReadString(item, out.finalizers.emplace_back(), "metadata.finalizers", errors);
    });
  }
  if (key == "managedFields" && !value.is_null()) {
    ondemand::array array;
    std::string_view text;
    if (errors.Ok(value.get_array().get(array), "metadata.managedFields") &&
        errors.Ok(array.raw_json().get(text), "metadata.managedFields"))
      managed = {member.begin, text.data() + text.size()};
  }
}

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The text without the member, and without the comma that separated it.
std::string Without(std::string_view text, Span span) {
  if (span.begin == nullptr) return std::string(text);
  const char* begin = span.begin;
  const char* end = span.end;
  const char* const first = text.data();
  const char* const last = text.data() + text.size();
  while (end < last && IsSpace(*end)) ++end;
  if (end < last && *end == ',') {
    ++end;
  } else {
    while (begin > first && IsSpace(begin[-1])) --begin;
    if (begin > first && begin[-1] == ',') --begin;
  }
  std::string out;
  out.reserve(text.size() - static_cast<std::size_t>(end - begin));
  out.append(first, begin).append(end, last);
  return out;
}

Result<RawObject> ReadObject(ondemand::parser& parser, simdjson::padded_string_view text) {
  RawObject out;
  Span managed;
  RETURN_IF_ERROR(ForRoot(
      parser, text, "read object", [&](std::string_view key, Member& member, Errors& errors) {
        if (key == "apiVersion") ReadString(member.value(), out.api_version, "apiVersion", errors);
        if (key == "kind") ReadString(member.value(), out.kind, "kind", errors);
        if (key != "metadata") return;
        ForFields(member.value(), "metadata", errors, [&](std::string_view name, Member& inner) {
          ReadMetadataField(name, inner, out, managed, errors);
        });
      }));
  out.json = Without({text.data(), text.size()}, managed);
  return out;
}

// The text of an object inside a padded text: whatever follows it serves as its padding.
simdjson::padded_string_view Inside(std::string_view part) {
  return simdjson::padded_string_view(part.data(), part.size(),
                                      part.size() + simdjson::SIMDJSON_PADDING);
}

void ReadListMetadata(ondemand::value value, ListPage& page, Errors& errors) {
  ForFields(value, "metadata", errors, [&](std::string_view key, Member& member) {
    if (key == "resourceVersion")
      ReadString(member.value(), page.resource_version, "metadata.resourceVersion", errors);
    if (key == "continue")
      ReadString(member.value(), page.continue_token, "metadata.continue", errors);
  });
}

// Puts apiVersion and kind into an object that came in a list without them.
void Complete(RawObject& object, const std::string& api_version, const std::string& list_kind) {
  if (!object.kind.empty() || !list_kind.ends_with("List")) return;
  object.api_version = api_version;
  object.kind = list_kind.substr(0, list_kind.size() - 4);
  const std::size_t brace = object.json.find('{');
  if (brace == std::string::npos) return;
  const std::size_t next = object.json.find_first_not_of(" \t\r\n", brace + 1);
  const bool empty = next != std::string::npos && object.json[next] == '}';
  object.json.insert(brace + 1, fmt::format(R"("apiVersion":"{}","kind":"{}"{})",
                                            object.api_version, object.kind, empty ? "" : ","));
}

}  // namespace

std::optional<std::string_view> RawObject::Label(std::string_view label) const {
  for (const auto& [name_of, value] : labels) {
    if (name_of == label) return value;
  }
  return std::nullopt;
}

const OwnerReference* RawObject::Controller() const {
  const auto found = std::ranges::find_if(owners, &OwnerReference::controller);
  return found == owners.end() ? nullptr : &*found;
}

Result<RawObject> ParseObject(std::string_view json) {
  const PaddedText text(json);
  ondemand::parser parser;
  return ReadObject(parser, text.view());
}

Result<ListPage> ParseList(std::string json) {
  const PaddedText text(std::move(json));
  ondemand::parser parser;
  ondemand::parser item_parser;
  ListPage page;
  std::string api_version, kind;
  Result<void> item_error;
  const auto take = [&](ondemand::value item, Errors& errors) {
    ondemand::object object;
    std::string_view part;
    if (!errors.Ok(item.get_object().get(object), "items") ||
        !errors.Ok(object.raw_json().get(part), "items") || !item_error)
      return;
    auto read = ReadObject(item_parser, Inside(part));
    if (read) {
      page.items.push_back(*std::move(read));
    } else {
      item_error = std::unexpected(std::move(read).error());
    }
  };
  RETURN_IF_ERROR(ForRoot(parser, text.view(), "read list",
                          [&](std::string_view key, Member& member, Errors& errors) {
                            if (key == "apiVersion")
                              ReadString(member.value(), api_version, "apiVersion", errors);
                            if (key == "kind") ReadString(member.value(), kind, "kind", errors);
                            if (key == "metadata") ReadListMetadata(member.value(), page, errors);
                            if (key == "items")
                              ForItems(member.value(), "items", errors,
                                       [&](ondemand::value item) { take(item, errors); });
                          }));
  RETURN_IF_ERROR(item_error);
  for (RawObject& item : page.items) Complete(item, api_version, kind);
  return page;
}

bool LaterVersion(std::string_view a, std::string_view b) {
  std::uint64_t x = 0, y = 0;
  const auto read_a = std::from_chars(a.data(), a.data() + a.size(), x);
  const auto read_b = std::from_chars(b.data(), b.data() + b.size(), y);
  const bool whole = read_a.ec == std::errc{} && read_a.ptr == a.data() + a.size() &&
                     read_b.ec == std::errc{} && read_b.ptr == b.data() + b.size();
  return whole && x > y;
}

Result<WatchEvent> ParseWatchEvent(std::string_view line) {
  const PaddedText text(line);
  ondemand::parser parser;
  std::string type;
  std::string_view part;
  RETURN_IF_ERROR(ForRoot(parser, text.view(), "read watch event",
                          [&](std::string_view key, Member& member, Errors& errors) {
                            if (key == "type") ReadString(member.value(), type, "type", errors);
                            if (key != "object") return;
                            ondemand::object object;
                            if (errors.Ok(member.value().get_object().get(object), "object"))
                              errors.Ok(object.raw_json().get(part), "object");
                          }));
  if (part.empty()) return Fail(Code::kInvalid, "read watch event: no object");
  if (type == "ERROR") return std::unexpected(StatusOfReply(0, part, "watch"));

  WatchEvent event;
  if (type == "ADDED") {
    event.type = WatchEventType::kAdded;
  } else if (type == "MODIFIED") {
    event.type = WatchEventType::kModified;
  } else if (type == "DELETED") {
    event.type = WatchEventType::kDeleted;
  } else if (type == "BOOKMARK") {
    event.type = WatchEventType::kBookmark;
  } else {
    return Fail(Code::kInvalid, "read watch event: unknown type \"{}\"", type);
  }
  ondemand::parser object_parser;
  ASSIGN_OR_RETURN(event.object, ReadObject(object_parser, Inside(part)));
  return event;
}

}  // namespace paddleop::kube
