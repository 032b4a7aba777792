#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "net/internal/client_tls_source.h"
#include "net/tls.h"

namespace boost::asio::ssl {
class context;
}

namespace paddleop::net::internal {

// The certificates a server shows and asks for, read again after their files changed. While new
// files cannot be used (half written, key and certificate of different pairs) the old ones stay,
// with a warning: a server that still answers is easier to repair. Thread-safe.
class ServerTlsSource {
 public:
  using SslContext = boost::asio::ssl::context;

  // `log` is borrowed and may be null. kInvalid or kNotFound name the file that cannot be used.
  static Result<std::unique_ptr<ServerTlsSource>> Open(ServerTls tls, const Logger* log);
  ~ServerTlsSource();

  // For the next connection. Looks at the files at most once a second.
  std::shared_ptr<SslContext> Current();

 private:
  ServerTlsSource(ServerTls tls, const Logger* log);
  std::array<FileStamp, 3> Stamps() const;
  Result<std::shared_ptr<SslContext>> Load() const;

  const ServerTls tls_;
  const Logger* const log_;
  Mutex mutex_;
  std::shared_ptr<SslContext> current_ GUARDED_BY(mutex_);
  std::array<FileStamp, 3> stamps_ GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point next_look_ GUARDED_BY(mutex_);
};

}  // namespace paddleop::net::internal
