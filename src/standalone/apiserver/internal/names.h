// Names as Kubernetes allows them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace paddleop::standalone::apiserver {

// What is wrong with the name, in the API server's words; nullopt if nothing.
std::optional<std::string> WrongSubdomain(std::string_view name);
std::optional<std::string> WrongLabelName(std::string_view name);      // RFC 1123 label
std::optional<std::string> WrongServiceName(std::string_view name);    // RFC 1035 label
std::optional<std::string> WrongQualifiedName(std::string_view name);  // [prefix/]name
std::optional<std::string> WrongLabelValue(std::string_view value);
std::optional<std::string> WrongConfigKey(std::string_view key);

}  // namespace paddleop::standalone::apiserver
