#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::object {

// A FileStatus of WebHDFS: the entry's key is its name in its directory, empty for the file itself.
struct HdfsStatus {
  ObjectInfo info;
  bool is_directory = false;
  bool is_file = false;  // neither: a symbolic link
};

struct HdfsListing {
  std::vector<HdfsStatus> entries;
  bool more = false;
};

// Answers of GETFILESTATUS and LISTSTATUS_BATCH. kCorrupt if they are not as documented.
Result<HdfsStatus> ParseHdfsStatus(std::string_view body);
Result<HdfsListing> ParseHdfsListing(std::string_view body);
// The error of a RemoteException, or of the bare HTTP status.
Status ParseHdfsError(int http_status, std::string_view body, std::string_view what);

}  // namespace paddleop::volume::object
