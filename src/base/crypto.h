// Digests, signatures and encodings over OpenSSL's EVP interface.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace paddleop {

// Raw digests, not hex.
std::string Md5(std::string_view data);
std::string Sha1(std::string_view data);
std::string Sha256(std::string_view data);
std::string HmacSha256(std::string_view key, std::string_view data);
std::string HmacSha1(std::string_view key, std::string_view data);

std::string HexEncode(std::string_view bytes);
Result<std::string> HexDecode(std::string_view text);
std::string Base64Encode(std::string_view bytes);
// Standard alphabet; padding required; white space refused.
Result<std::string> Base64Decode(std::string_view text);

// Percent-encodes everything but A-Z a-z 0-9 - . _ ~ and the characters in `keep`.
std::string UrlEncode(std::string_view text, std::string_view keep = "");
Result<std::string> UrlDecode(std::string_view text);

// AES-128-GCM without additional data: seals to ciphertext || 16-byte tag.
Result<std::string> Aes128GcmSeal(std::string_view key, std::string_view nonce,
                                  std::string_view plain);
// kCorrupt if the tag does not match.
Result<std::string> Aes128GcmOpen(std::string_view key, std::string_view nonce,
                                  std::string_view sealed);

// Bytes fit for keys and nonces.
std::string RandomBytes(std::size_t n);
// A random (version 4) UUID in lower case.
std::string RandomUuid();
// The name-based (version 5) UUID of `name` within the namespace UUID `space` (its text form).
Result<std::string> NameUuid(std::string_view space, std::string_view name);

// Compares in time that does not depend on where the first difference is: for tokens.
bool ConstantTimeEquals(std::string_view a, std::string_view b);

}  // namespace paddleop
