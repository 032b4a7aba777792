#include "base/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <memory>

#include "base/check.h"

namespace paddleop {
namespace {

const unsigned char* Raw(std::string_view s) {
  return reinterpret_cast<const unsigned char*>(s.data());
}
unsigned char* Raw(std::string& s) { return reinterpret_cast<unsigned char*>(s.data()); }

std::string Digest(const EVP_MD* type, std::string_view data) {
  std::string out(static_cast<std::size_t>(EVP_MD_size(type)), '\0');
  CHECK(EVP_Digest(data.data(), data.size(), Raw(out), nullptr, type, nullptr) == 1, "digest");
  return out;
}

std::string Hmac(const EVP_MD* type, std::string_view key, std::string_view data) {
  std::string out(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  CHECK(HMAC(type, key.data(), static_cast<int>(key.size()), Raw(data), data.size(), Raw(out),
             &size) != nullptr,
        "hmac");
  out.resize(size);
  return out;
}

struct FreeCipher {
  void operator()(EVP_CIPHER_CTX* p) const { EVP_CIPHER_CTX_free(p); }
};
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, FreeCipher>;

constexpr std::size_t kTagSize = 16;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string FormatUuid(std::string bytes, int version) {
  bytes[6] = static_cast<char>((bytes[6] & 0x0f) | (version << 4));
  bytes[8] = static_cast<char>((bytes[8] & 0x3f) | 0x80);
  std::string hex = HexEncode(bytes.substr(0, 16));
  for (std::size_t at : {20u, 16u, 12u, 8u}) hex.insert(at, "-");
  return hex;
}

}  // namespace

std::string Md5(std::string_view data) { return Digest(EVP_md5(), data); }
std::string Sha1(std::string_view data) { return Digest(EVP_sha1(), data); }
std::string Sha256(std::string_view data) { return Digest(EVP_sha256(), data); }
std::string HmacSha256(std::string_view key, std::string_view data) {
  return Hmac(EVP_sha256(), key, data);
}
std::string HmacSha1(std::string_view key, std::string_view data) {
  return Hmac(EVP_sha1(), key, data);
}

std::string HexEncode(std::string_view bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out.push_back(kDigits[byte >> 4]);
    out.push_back(kDigits[byte & 15]);
  }
  return out;
}

Result<std::string> HexDecode(std::string_view text) {
  if (text.size() % 2 != 0) return Fail(Code::kInvalid, "hex text has an odd length");
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = HexDigit(text[i]), low = HexDigit(text[i + 1]);
    if (high < 0 || low < 0) return Fail(Code::kInvalid, "not hex text");
    out.push_back(static_cast<char>(high << 4 | low));
  }
  return out;
}

std::string Base64Encode(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int n = EVP_EncodeBlock(Raw(out), Raw(bytes), static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(n));
  return out;
}

Result<std::string> Base64Decode(std::string_view text) {
  if (text.size() % 4 != 0) return Fail(Code::kInvalid, "base64 text has a wrong length");
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  // EVP_DecodeBlock skips white space at both ends, which would let two texts mean one value.
  for (char c : text.substr(0, text.size() - padding)) {
    if (!isalnum(static_cast<unsigned char>(c)) && c != '+' && c != '/')
      return Fail(Code::kInvalid, "not base64 text");
  }
  std::string out(text.size() / 4 * 3, '\0');
  const int n = EVP_DecodeBlock(Raw(out), Raw(text), static_cast<int>(text.size()));
  if (n < 0) return Fail(Code::kInvalid, "not base64 text");
  out.resize(static_cast<std::size_t>(n) - padding);
  return out;
}

std::string UrlEncode(std::string_view text, std::string_view keep) {
  static constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x80 && isalnum(byte)) || c == '-' || c == '.' || c == '_' || c == '~' ||
        keep.find(c) != keep.npos) {
      out.push_back(c);
    } else {
      out.push_back('%');
      out.push_back(kDigits[byte >> 4]);
      out.push_back(kDigits[byte & 15]);
    }
  }
  return out;
}

Result<std::string> UrlDecode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return Fail(Code::kInvalid, "\"{}\" ends inside a % escape", text);
    const int high = HexDigit(text[i + 1]), low = HexDigit(text[i + 2]);
    if (high < 0 || low < 0) return Fail(Code::kInvalid, "\"{}\" has a malformed % escape", text);
    out.push_back(static_cast<char>(high << 4 | low));
    i += 2;
  }
  return out;
}

Result<std::string> Aes128GcmSeal(std::string_view key, std::string_view nonce,
                                  std::string_view plain) {
  if (key.size() != 16) return Fail(Code::kInvalid, "AES-128 key of {} bytes", key.size());
  Cipher ctx(EVP_CIPHER_CTX_new());
  std::string out(plain.size() + kTagSize, '\0');
  int n = 0, last = 0;
  if (EVP_EncryptInit_ex(ctx.get(), EVP_aes_128_gcm(), nullptr, nullptr, nullptr) != 1 ||
      EVP_CIPHER_CTX_ctrl(ctx.get(), EVP_CTRL_GCM_SET_IVLEN, static_cast<int>(nonce.size()),
                          nullptr) != 1 ||
      EVP_EncryptInit_ex(ctx.get(), nullptr, nullptr, Raw(key), Raw(nonce)) != 1 ||
      EVP_EncryptUpdate(ctx.get(), Raw(out), &n, Raw(plain), static_cast<int>(plain.size())) != 1 ||
      EVP_EncryptFinal_ex(ctx.get(), Raw(out) + n, &last) != 1 ||
      EVP_CIPHER_CTX_ctrl(ctx.get(), EVP_CTRL_GCM_GET_TAG, kTagSize, Raw(out) + plain.size()) !=
          1) {
    return Fail(Code::kInternal, "AES-GCM encryption failed");
  }
  return out;
}

Result<std::string> Aes128GcmOpen(std::string_view key, std::string_view nonce,
                                  std::string_view sealed) {
  if (key.size() != 16) return Fail(Code::kInvalid, "AES-128 key of {} bytes", key.size());
  if (sealed.size() < kTagSize) return Fail(Code::kCorrupt, "sealed text is shorter than its tag");
  const auto cipher_text = sealed.substr(0, sealed.size() - kTagSize);
  std::string tag(sealed.substr(cipher_text.size()));
  Cipher ctx(EVP_CIPHER_CTX_new());
  std::string out(cipher_text.size(), '\0');
  int n = 0, last = 0;
  if (EVP_DecryptInit_ex(ctx.get(), EVP_aes_128_gcm(), nullptr, nullptr, nullptr) != 1 ||
      EVP_CIPHER_CTX_ctrl(ctx.get(), EVP_CTRL_GCM_SET_IVLEN, static_cast<int>(nonce.size()),
                          nullptr) != 1 ||
      EVP_DecryptInit_ex(ctx.get(), nullptr, nullptr, Raw(key), Raw(nonce)) != 1 ||
      EVP_DecryptUpdate(ctx.get(), Raw(out), &n, Raw(cipher_text),
                        static_cast<int>(cipher_text.size())) != 1 ||
      EVP_CIPHER_CTX_ctrl(ctx.get(), EVP_CTRL_GCM_SET_TAG, kTagSize, tag.data()) != 1 ||
      EVP_DecryptFinal_ex(ctx.get(), Raw(out) + n, &last) != 1) {
    return Fail(Code::kCorrupt, "sealed text does not match its key");
  }
  return out;
}

std::string RandomBytes(std::size_t n) {
  std::string out(n, '\0');
  CHECK(RAND_bytes(Raw(out), static_cast<int>(n)) == 1, "no random bytes");
  return out;
}

std::string RandomUuid() { return FormatUuid(RandomBytes(16), 4); }

Result<std::string> NameUuid(std::string_view space, std::string_view name) {
  std::string hex;
  for (char c : space) {
    if (c != '-') hex.push_back(c);
  }
  auto bytes = HexDecode(hex);
  if (!bytes || bytes->size() != 16) return Fail(Code::kInvalid, "\"{}\" is not a UUID", space);
  return FormatUuid(Sha1(*bytes + std::string(name)), 5);
}

bool ConstantTimeEquals(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace paddleop
