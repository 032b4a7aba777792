#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/context.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/secret.h"
#include "volume/format/types.h"
#include "volume/object/object_store.h"
#include "volume/object/open_store.h"

namespace paddleop::volume::data {

// A directory of a volume.
struct VolumePlace {
  std::string uuid;
  Ino directory = kNoIno;
};

// A directory of a FUSE mount, as the mount shows it: perhaps one of the volume that is imported
// into.
struct MountedPlace {
  Ino directory = kNoIno;
  Timestamp mtime;
  Timestamp ctime;
};

// Where an import reads from.
struct Source {
  std::unique_ptr<object::ObjectStore> store;  // keys are relative to what the URI names
  std::string uri;                             // without secrets
  std::string single;                          // not empty: the URI names this one object
  bool whole = true;              // a bucket or directory as a whole, which may well be empty
  std::int64_t bwlimit_mbps = 0;  // 0: none
  std::optional<VolumePlace> volume = {};  // if it is one, or a file there
  std::optional<MountedPlace> mounted = {};
};

struct SourceOptions {
  bool no_https = false;
  std::int64_t bwlimit_mbps = 0;  // of all that is read
  std::size_t threads = 64;       // as ImportOptions::threads
  // Instead of those in the URI or the environment.
  std::string access_key = {};
  Secret secret_key = {};
  Secret session_token = {};
  object::StoreOptions store = {};  // retries and time-outs; tests shorten them
};

// Opens a source by its URI: those of ParseStorageUri; an absolute path; hdfs://HOST:PORT/PATH
// (WebHDFS); another volume as sqlite3://FILE, or as jfs://NAME/PATH where the environment variable
// NAME holds its metadata URL. The last part of the path may be an object, which is then imported
// alone, or what the keys of all objects begin with, as a directory: "s3://b/set" means
// "s3://b/set/".
//
// kInvalid, kNotSupported, kNotFound, kPermission, kUnavailable name the URI without its secret.
Result<Source> OpenSource(const Context& ctx, const std::string& uri, const SourceOptions& options,
                          const Logger& log, MetricsRegistry& metrics);

}  // namespace paddleop::volume::data
