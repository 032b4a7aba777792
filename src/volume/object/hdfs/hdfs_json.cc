#include "volume/object/hdfs/hdfs_json.h"

#include <grp.h>
#include <pwd.h>

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "base/mutex.h"
#include "net/http.h"

namespace paddleop::volume::object {
namespace {

using nlohmann::json;

const json* Member(const json& value, const char* name) {
  if (!value.is_object()) return nullptr;
  const auto found = value.find(name);
  return found == value.end() ? nullptr : &*found;
}

std::string Text(const json& value, const char* name) {
  const json* member = Member(value, name);
  return member != nullptr && member->is_string() ? member->get<std::string>() : "";
}

std::uint64_t Number(const json& value, const char* name) {
  const json* member = Member(value, name);
  return member != nullptr && member->is_number_unsigned() ? member->get<std::uint64_t>() : 0;
}

// HDFS knows users by name; numbers are this machine's. Root if it does not know them.
std::uint32_t IdOf(const std::string& name, bool group) {
  static Mutex mutex;
  static std::map<std::pair<std::string, bool>, std::uint32_t> known;
  MutexLock lock(mutex);
  const auto found = known.find({name, group});
  if (found != known.end()) return found->second;
  std::uint32_t id = 0;
  char buffer[4096];
  if (group) {
    ::group entry{};
    ::group* result = nullptr;
    if (::getgrnam_r(name.c_str(), &entry, buffer, sizeof buffer, &result) == 0 && result)
      id = entry.gr_gid;
  } else {
    passwd entry{};
    passwd* result = nullptr;
    if (::getpwnam_r(name.c_str(), &entry, buffer, sizeof buffer, &result) == 0 && result)
      id = entry.pw_uid;
  }
  if (known.size() < 1000) known[{name, group}] = id;
  return id;
}

Result<HdfsStatus> StatusOf(const json& value) {
  HdfsStatus status;
  const std::string type = Text(value, "type");
  if (type.empty()) return Fail(Code::kCorrupt, "a file status without a type");
  status.is_directory = type == "DIRECTORY";
  status.is_file = type == "FILE";
  ObjectInfo& info = status.info;
  info.key = Text(value, "pathSuffix");
  info.is_prefix = status.is_directory;
  const std::uint64_t milliseconds = Number(value, "modificationTime");
  info.mtime = std::chrono::system_clock::time_point(std::chrono::milliseconds(milliseconds));
  FileOwner owner{.uid = IdOf(Text(value, "owner"), false),
                  .gid = IdOf(Text(value, "group"), true)};
  const std::string mode = Text(value, "permission");
  std::from_chars(mode.data(), mode.data() + mode.size(), owner.mode, 8);
  info.owner = owner;
  if (status.is_file) {
    info.size = Number(value, "length");
    info.etag = fmt::format("{}-{}-{}", milliseconds, info.size, Number(value, "fileId"));
  }
  return status;
}

Result<json> Parse(std::string_view body) {
  json value = json::parse(body, nullptr, false);
  if (!value.is_object()) return Fail(Code::kCorrupt, "an answer that is not a JSON object");
  return value;
}

}  // namespace

Result<HdfsStatus> ParseHdfsStatus(std::string_view body) {
  ASSIGN_OR_RETURN(const json value, Parse(body));
  const json* status = Member(value, "FileStatus");
  if (status == nullptr) return Fail(Code::kCorrupt, "an answer without a FileStatus");
  return StatusOf(*status);
}

Result<HdfsListing> ParseHdfsListing(std::string_view body) {
  ASSIGN_OR_RETURN(const json value, Parse(body));
  HdfsListing listing;
  const json* directory = Member(value, "DirectoryListing");
  const json* partial = directory == nullptr ? nullptr : Member(*directory, "partialListing");
  const json* statuses = partial == nullptr ? nullptr : Member(*partial, "FileStatuses");
  const json* entries = statuses == nullptr ? nullptr : Member(*statuses, "FileStatus");
  if (entries == nullptr || !entries->is_array()) {
    return Fail(Code::kCorrupt, "an answer without a DirectoryListing");
  }
  for (const json& entry : *entries) {
    ASSIGN_OR_RETURN(HdfsStatus status, StatusOf(entry));
    listing.entries.push_back(std::move(status));
  }
  listing.more = Number(*directory, "remainingEntries") > 0 && !listing.entries.empty();
  return listing;
}

Status ParseHdfsError(int http_status, std::string_view body, std::string_view what) {
  const json value = json::parse(body, nullptr, false);
  const json* remote = Member(value, "RemoteException");
  Status plain = net::StatusOfHttp(http_status, what);
  if (remote == nullptr) return plain;
  const std::string exception = Text(*remote, "exception");
  std::string message = Text(*remote, "message");
  message = message.substr(0, message.find('\n'));
  Code code = plain.code();
  if (exception == "FileNotFoundException") code = Code::kNotFound;
  if (exception == "AccessControlException") code = Code::kPermission;
  // The other name node of the pair serves; or this one is still starting.
  if (exception == "StandbyException" || exception == "SafeModeException" ||
      exception == "RetriableException") {
    code = Code::kUnavailable;
  }
  return Status(code, fmt::format("{}: {}: {}", what, exception, message));
}

}  // namespace paddleop::volume::object
