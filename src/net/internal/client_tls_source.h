#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "net/tls.h"

namespace paddleop::net::internal {

// PEM texts as they are at one moment; empty where the client has none.
struct TlsMaterial {
  std::string ca;
  std::string cert;
  Secret key;
};

// What a file looked like when it was last read: enough to see that somebody replaced it.
struct FileStamp {
  std::int64_t mtime_ns = 0;
  std::int64_t size = -1;
  std::uint64_t inode = 0;
  bool operator==(const FileStamp&) const = default;
};

// The stamp of a file that cannot be read is that of no file.
FileStamp StampOf(const std::string& path);

// Holds a client's certificates and reads their files again after they changed. Thread-safe.
class ClientTlsSource {
 public:
  // kInvalid or kNotFound name the field or file that is wrong.
  static Result<std::unique_ptr<ClientTlsSource>> Open(ClientTls tls);

  // The texts as they are now; null if the client has none of its own. Looks at the files at most
  // once a second.
  Result<std::shared_ptr<const TlsMaterial>> Current();

 private:
  explicit ClientTlsSource(ClientTls tls) : tls_(std::move(tls)) {}
  std::array<FileStamp, 3> Stamps() const;
  Result<std::shared_ptr<const TlsMaterial>> Load() const;

  const ClientTls tls_;
  bool has_material_ = false;
  bool has_files_ = false;
  Mutex mutex_;
  std::shared_ptr<const TlsMaterial> current_ GUARDED_BY(mutex_);
  std::array<FileStamp, 3> stamps_ GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point next_look_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::net::internal
