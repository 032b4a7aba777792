#include "standalone/node/kubelet/environment.h"

#include <algorithm>

namespace paddleop::standalone::node {
namespace {

void Set(Environment& env, const std::string& name, std::string value) {
  const auto found =
      std::find_if(env.begin(), env.end(), [&](const auto& entry) { return entry.first == name; });
  if (found != env.end()) {
    found->second = std::move(value);
  } else {
    env.emplace_back(name, std::move(value));
  }
}

// What a process cannot have in its environment is left out, as a kubelet does.
bool ValidName(std::string_view name) {
  return !name.empty() && name.find('=') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

Result<void> AddAll(const Context& ctx, const std::string& ns, const EnvFrom& from,
                    ConfigSource& source, Environment& env) {
  const api::ObjectKey key{ns, from.name};
  if (from.secret) {
    auto secret = source.GetSecret(ctx, key);
    if (!secret && IsNotFound(secret.error()) && from.optional) return {};
    if (!secret && IsNotFound(secret.error()))
      return Fail(Code::kNotFound, "secret \"{}\" not found", from.name);
    if (!secret) return std::unexpected(std::move(secret).error());
    for (const auto& [name, value] : secret->data) {
      if (ValidName(from.prefix + name)) Set(env, from.prefix + name, value.Reveal());
    }
    return {};
  }
  auto map = source.GetConfigMap(ctx, key);
  if (!map && IsNotFound(map.error()) && from.optional) return {};
  if (!map && IsNotFound(map.error()))
    return Fail(Code::kNotFound, "configmap \"{}\" not found", from.name);
  if (!map) return std::unexpected(std::move(map).error());
  for (const auto& [name, value] : map->data) {
    if (ValidName(from.prefix + name)) Set(env, from.prefix + name, value);
  }
  return {};
}

// nullopt: optional, and not there.
Result<std::optional<std::string>> FromReference(const Context& ctx, const std::string& ns,
                                                 const EnvVar& var, ConfigSource& source) {
  const KeyReference& ref = var.reference;
  const bool is_secret = var.source == EnvVar::Source::kSecret;
  std::optional<std::string> value;
  Status missing(Code::kNotFound,
                 fmt::format("{} \"{}\" not found", is_secret ? "secret" : "configmap", ref.name));
  const auto no_key = [&] {
    return Status(Code::kNotFound, fmt::format("couldn't find key {} in {} {}/{}", ref.key,
                                               is_secret ? "Secret" : "ConfigMap", ns, ref.name));
  };
  if (is_secret) {
    auto secret = source.GetSecret(ctx, {ns, ref.name});
    if (!secret && !IsNotFound(secret.error())) return std::unexpected(std::move(secret).error());
    if (secret && secret->Has(ref.key)) value = secret->data.find(ref.key)->second.Reveal();
    if (secret) missing = no_key();
  } else {
    auto map = source.GetConfigMap(ctx, {ns, ref.name});
    if (!map && !IsNotFound(map.error())) return std::unexpected(std::move(map).error());
    if (map) {
      if (const auto found = map->data.find(ref.key); found != map->data.end())
        value = found->second;
      missing = no_key();
    }
  }
  if (!value && !ref.optional) return std::unexpected(std::move(missing));
  return value;
}

Result<std::optional<std::string>> ValueOf(const Context& ctx, const PodSpec& pod,
                                           const ContainerSpec& container, const EnvVar& var,
                                           const NodeFacts& facts, const Environment& env,
                                           ConfigSource& source) {
  switch (var.source) {
    case EnvVar::Source::kLiteral:
      return std::optional(Expand(var.value, env));
    case EnvVar::Source::kConfigMap:
    case EnvVar::Source::kSecret:
      return FromReference(ctx, pod.metadata.ns, var, source);
    case EnvVar::Source::kField: {
      ASSIGN_OR_RETURN(std::string value, FieldValue(pod, facts, var.path));
      return std::optional(std::move(value));
    }
    case EnvVar::Source::kResource: {
      const ContainerSpec* of = &container;
      for (const ContainerSpec& each : pod.containers) {
        if (each.name == var.container) of = &each;
      }
      ASSIGN_OR_RETURN(std::string value, ResourceValue(*of, var.path, var.divisor));
      return std::optional(std::move(value));
    }
  }
  return std::optional<std::string>();
}

}  // namespace

std::string Expand(std::string_view text, const Environment& env) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    if (text[i + 1] == '$') {
      out += '$';
      ++i;
      continue;
    }
    const std::size_t end = text[i + 1] == '(' ? text.find(')', i) : std::string_view::npos;
    if (end == std::string_view::npos) {
      out += '$';
      continue;
    }
    const std::string_view name = text.substr(i + 2, end - i - 2);
    const auto found = std::find_if(env.begin(), env.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    out += found != env.end() ? std::string_view(found->second) : text.substr(i, end - i + 1);
    i = end;
  }
  return out;
}

Result<Environment> ContainerEnvironment(const Context& ctx, const PodSpec& pod,
                                         const ContainerSpec& container, const NodeFacts& facts,
                                         const Environment& base, ConfigSource& source) {
  Environment env = base;
  for (const EnvFrom& from : container.env_from)
    RETURN_IF_ERROR(AddAll(ctx, pod.metadata.ns, from, source, env));
  for (const EnvVar& var : container.env) {
    ASSIGN_OR_RETURN(std::optional<std::string> value,
                     ValueOf(ctx, pod, container, var, facts, env, source));
    if (value) Set(env, var.name, *std::move(value));
  }
  return env;
}

}  // namespace paddleop::standalone::node
