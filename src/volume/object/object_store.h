#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "base/status.h"

namespace paddleop::volume::object {

// A part of an object. A range that reaches past the end means "as much as there is".
struct ByteRange {
  static constexpr std::uint64_t kToEnd = UINT64_MAX;

  std::uint64_t offset = 0;
  std::uint64_t length = kToEnd;

  bool whole() const { return offset == 0 && length == kToEnd; }
};

// Who may use a file, where the store knows such.
struct FileOwner {
  std::uint16_t mode = 0;  // permission bits
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

struct ObjectInfo {
  std::string key = {};
  std::uint64_t size = 0;
  std::chrono::system_clock::time_point mtime = {};  // zero where the store keeps none (redis)
  // Changes whenever the content does; good for GetOptions::if_match. May be empty.
  std::string etag = {};
  // Not an object but what stands for all keys that begin with `key` (see ListOptions::delimiter),
  // or a directory (see ListOptions::directories).
  bool is_prefix = false;
  bool unfinished = false;              // see ListOptions::unfinished
  std::string problem = {};             // see ListOptions::unreadable
  std::optional<FileOwner> owner = {};  // of stores that hold files
};

struct GetOptions {
  ByteRange range = {};
  // Non-empty: only if the object's etag still is this one; kConflict otherwise.
  std::string if_match = {};
};

struct GetResult {
  std::size_t size = 0;           // bytes put into the buffer
  std::uint64_t object_size = 0;  // of the whole object
  std::string etag = {};
  // What the writer recorded (PutOptions::crc32c), if the store keeps it.
  std::optional<std::uint32_t> crc32c = {};
  // What the bytes put into the buffer have, if that was worked out while they arrived.
  std::optional<std::uint32_t> received_crc32c = {};
};

struct PutOptions {
  // CRC-32C of the whole body, kept beside the object where the store can (StoreTraits::metadata):
  // user metadata "Crc32c" in decimal, as the official client writes it.
  std::optional<std::uint32_t> crc32c = {};
  std::string storage_class = {};  // where the store knows such; empty: its default
};

struct ListOptions {
  std::string prefix = {};
  std::string start_after = {};  // only keys greater than this one
  // Non-empty: keys that contain it after the prefix are rolled up into one entry that ends with
  // it.
  std::string delimiter = {};
  std::uint64_t limit = 0;  // 0: all
  // Also what has no content of its own: directories of a file store, as keys that end with '/'.
  bool directories = false;
  // Also what a writer that died left of objects it never completed (a file store's temporary
  // files).
  bool unfinished = false;
  // Also what has a name but no content that could be read, with the reason in
  // ObjectInfo::problem: symbolic links of a file store that lead nowhere, or back up.
  bool unreadable = false;
};

// Takes one entry, which it may move from; false ends the listing. An error ends it too and is
// returned by List.
using ListVisitor = std::function<Result<bool>(ObjectInfo& entry)>;

struct KeyError {
  std::string key;
  Status error;
};

struct UploadedPart {
  int number = 0;  // from 1
  std::string etag = {};
  std::uint64_t size = 0;
};

struct StoreTraits {
  bool ranges = true;            // a ranged Get moves only that range over the network
  bool metadata = false;         // keeps PutOptions::crc32c
  bool copy = false;             // Copy works
  bool asynchronous = false;     // Start* need no thread per request
  std::size_t delete_batch = 1;  // keys that DeleteMany removes with one request
  // Multipart uploads; 0: not supported. All parts but the last have at least min_part_size bytes.
  std::uint64_t min_part_size = 0;
  std::uint64_t max_part_size = 0;
  int max_parts = 0;
};

// An ObjectStore keeps byte strings under keys: a bucket, a directory, a Redis database. Keys are
// bytes without structure, although some stores refuse some (kInvalid or kNameTooLong says which
// and why). An object appears, and is replaced, as a whole.
//
// Thread-safe. Codes a caller can act on: kNotFound (no such object), kInvalid (no such bucket, a
// key the store cannot hold, a buffer too small), kPermission (keys wrong or not sufficient),
// kConflict (if_match), kUnavailable (worth another try; the retry decorator does so), kCorrupt
// (checksum), kNoSpace, kQuota, kNotSupported (see traits()). Messages name the store and the key,
// never a secret.
class ObjectStore {
 public:
  using GetDone = std::function<void(Result<GetResult>)>;
  using Done = std::function<void(Result<void>)>;

  virtual ~ObjectStore() = default;

  // Where it is, for messages: "s3://bucket/", "file:///data/". Without secrets.
  virtual std::string name() const = 0;
  virtual StoreTraits traits() const = 0;

  // Makes the bucket or directory; fine if it is there and ours.
  virtual Result<void> Create(const Context& ctx) = 0;

  // Reads the range into `out`. kInvalid if it has more bytes than `out`. Nothing, but no error, if
  // the range begins at or after the end.
  virtual Result<GetResult> Get(const Context& ctx, std::string_view key, const GetOptions& options,
                                std::span<std::byte> out) = 0;
  virtual Result<void> Put(const Context& ctx, std::string_view key,
                           std::span<const std::byte> data, const PutOptions& options) = 0;
  // Fine if there is no such object.
  virtual Result<void> Delete(const Context& ctx, std::string_view key) = 0;
  // Deletes all of them with as few requests as the store allows. The keys that are still there are
  // returned with the reason; an error means that it is not known for any.
  virtual Result<std::vector<KeyError>> DeleteMany(const Context& ctx,
                                                   std::span<const std::string> keys);
  virtual Result<ObjectInfo> Head(const Context& ctx, std::string_view key) = 0;
  // Shows the entries in the byte order of their keys. What is written or deleted meanwhile may or
  // may not be seen; everything else is seen once.
  virtual Result<void> List(const Context& ctx, const ListOptions& options,
                            const ListVisitor& visit) = 0;
  // Within the store, without moving the bytes through here.
  virtual Result<void> Copy(const Context& ctx, std::string_view from, std::string_view to);

  // An object in parts, which may be sent at the same time and in any order. Until CompleteUpload
  // returns, the object does not change; AbortUpload drops the parts (fine if there are none).
  virtual Result<std::string> CreateUpload(const Context& ctx, std::string_view key,
                                           const PutOptions& options);
  virtual Result<UploadedPart> UploadPart(const Context& ctx, std::string_view key,
                                          const std::string& upload, int number,
                                          std::span<const std::byte> data);
  virtual Result<void> CompleteUpload(const Context& ctx, std::string_view key,
                                      const std::string& upload,
                                      std::span<const UploadedPart> parts);
  virtual Result<void> AbortUpload(const Context& ctx, std::string_view key,
                                   const std::string& upload);

  // The same operations without a thread that waits. `done` is called exactly once, also when the
  // store is destroyed first (kCancelled), from a thread of the store or, where the store is not
  // asynchronous(), from this call itself; it must not block, and must not destroy the store. `key`
  // is copied; the buffers must live until `done`. How many are in flight is the caller's to limit.
  virtual void StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                        std::span<std::byte> out, GetDone done);
  virtual void StartPut(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                        const PutOptions& options, Done done);
  virtual void StartDelete(const Context& ctx, std::string_view key, Done done);

  // How long the store has asked its clients to stay away (Retry-After); zero if it has not. What
  // retries waits at least so long.
  virtual std::chrono::steady_clock::duration RetryAfter() const;
};

// The whole object, at most `limit` bytes of it (kInvalid if it is larger): for small ones.
Result<std::string> GetString(ObjectStore& store, const Context& ctx, std::string_view key,
                              std::size_t limit);
Result<void> PutString(ObjectStore& store, const Context& ctx, std::string_view key,
                       std::string_view content);
// The entries of a listing; give it a limit unless the prefix is known to be small.
Result<std::vector<ObjectInfo>> ListEntries(ObjectStore& store, const Context& ctx,
                                            const ListOptions& options);

}  // namespace paddleop::volume::object
