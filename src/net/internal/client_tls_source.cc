#include "net/internal/client_tls_source.h"

#include <sys/stat.h>

#include <string_view>

#include "base/posix.h"

namespace paddleop::net::internal {
namespace {

constexpr std::chrono::seconds kLookInterval(1);
constexpr std::size_t kMaxPemBytes = 4 << 20;

// The PEM text of one field: the text itself, or the file's.
Result<std::string> PemOf(std::string_view what, const std::string& pem, const std::string& file) {
  std::string text = pem;
  std::string where = fmt::format("{} given as text", what);
  if (text.empty()) {
    if (file.empty()) return std::string();
    where = fmt::format("{} file {}", what, file);
    auto content = ReadFile(file, kMaxPemBytes);
    if (!content) return std::unexpected(std::move(content).error().Wrap(where));
    text = *std::move(content);
  }
  if (!std::string_view(text).contains("-----BEGIN ")) {
    return Fail(Code::kInvalid, "{}: no PEM block in it", where);
  }
  return text;
}

}  // namespace

FileStamp StampOf(const std::string& path) {
  struct stat st{};
  if (path.empty() || ::stat(path.c_str(), &st) != 0) return {};
  return {.mtime_ns = st.st_mtim.tv_sec * 1'000'000'000LL + st.st_mtim.tv_nsec,
          .size = st.st_size,
          .inode = st.st_ino};
}

Result<std::unique_ptr<ClientTlsSource>> ClientTlsSource::Open(ClientTls tls) {
  const bool has_cert = !tls.cert_file.empty() || !tls.cert_pem.empty();
  const bool has_key = !tls.key_file.empty() || !tls.key_pem.empty();
  if (has_cert != has_key) {
    return Fail(Code::kInvalid, "TLS: a client certificate and its key must be given together");
  }
  const bool has_ca = !tls.ca_file.empty() || !tls.ca_pem.empty();
  const auto is_file = [](const std::string& file, bool text) { return !file.empty() && !text; };
  const bool has_files = is_file(tls.ca_file, !tls.ca_pem.empty()) ||
                         is_file(tls.cert_file, !tls.cert_pem.empty()) ||
                         is_file(tls.key_file, !tls.key_pem.empty());
  std::unique_ptr<ClientTlsSource> source(new ClientTlsSource(std::move(tls)));
  source->has_material_ = has_cert || has_ca;
  source->has_files_ = has_files;
  RETURN_IF_ERROR(source->Current());
  return source;
}

std::array<FileStamp, 3> ClientTlsSource::Stamps() const {
  return {StampOf(tls_.ca_file), StampOf(tls_.cert_file), StampOf(tls_.key_file)};
}

Result<std::shared_ptr<const TlsMaterial>> ClientTlsSource::Load() const {
  TlsMaterial material;
  ASSIGN_OR_RETURN(material.ca, PemOf("TLS: CA", tls_.ca_pem, tls_.ca_file));
  ASSIGN_OR_RETURN(material.cert, PemOf("TLS: client certificate", tls_.cert_pem, tls_.cert_file));
  ASSIGN_OR_RETURN(auto key, PemOf("TLS: client key", tls_.key_pem.Reveal(), tls_.key_file));
  material.key = Secret(std::move(key));
  return std::make_shared<const TlsMaterial>(std::move(material));
}

Result<std::shared_ptr<const TlsMaterial>> ClientTlsSource::Current() {
  if (!has_material_) return nullptr;
  MutexLock lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (current_ && (!has_files_ || now < next_look_)) return current_;
  // Stamped before reading: a file replaced in between is read again at the next look.
  const auto stamps = Stamps();
  if (!current_ || stamps != stamps_) {
    ASSIGN_OR_RETURN(current_, Load());
    stamps_ = stamps;
  }
  next_look_ = now + kLookInterval;
  return current_;
}

}  // namespace paddleop::net::internal
