// The JSON that BOS speaks, read and written as values. What comes from outside is limited in size
// and never trusted: kCorrupt says what was wrong with it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "volume/object/internal/rest_error.h"
#include "volume/object/internal/rest_store.h"

namespace paddleop::volume::object {

inline constexpr std::size_t kMaxBosJsonBytes = 8 << 20;

// nullopt if the body is no error.
std::optional<internal::RestError> ParseBosError(std::string_view body);
Result<internal::ListPage> ParseBosList(std::string_view body);
Result<std::string> ParseBosUploadId(std::string_view body);
// Only what failed; an empty body means that all went well.
Result<std::vector<std::pair<std::string, internal::RestError>>> ParseBosDeleteResult(
    std::string_view body);

// The keys must be UTF-8.
std::string BosDeleteBody(std::span<const std::string> keys);
std::string BosCompleteBody(std::span<const UploadedPart> parts);

}  // namespace paddleop::volume::object
