#include "standalone/apiserver/internal/protobuf_body.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <span>

#include "base/crypto.h"

namespace paddleop::standalone::apiserver {
namespace {

using api::Json;

constexpr std::string_view kMagic("k8s\0", 4);

enum class Type {
  kString,
  kBytes,  // base64 in JSON
  kInteger,
  kFlag,
  kMessage,
  kStrings,   // repeated
  kMessages,  // repeated
  kStringMap,
  kBytesMap,
};

// Numbers and names as in the .proto files of k8s.io/api and k8s.io/apimachinery.
struct Field {
  std::uint64_t number = 0;
  const char* name = nullptr;
  Type type = Type::kString;
  std::span<const Field> message = {};
};

constexpr Field kOwner[] = {{5, "apiVersion"},
                            {1, "kind"},
                            {3, "name"},
                            {4, "uid"},
                            {6, "controller", Type::kFlag},
                            {7, "blockOwnerDeletion", Type::kFlag}};
// Times are left out: those of metadata are the server's.
constexpr Field kMeta[] = {{1, "name"},
                           {2, "generateName"},
                           {3, "namespace"},
                           {5, "uid"},
                           {6, "resourceVersion"},
                           {11, "labels", Type::kStringMap},
                           {12, "annotations", Type::kStringMap},
                           {13, "ownerReferences", Type::kMessages, kOwner},
                           {14, "finalizers", Type::kStrings}};
constexpr Field kConfigMap[] = {{1, "metadata", Type::kMessage, kMeta},
                                {2, "data", Type::kStringMap},
                                {3, "binaryData", Type::kBytesMap},
                                {4, "immutable", Type::kFlag}};
constexpr Field kSecret[] = {{1, "metadata", Type::kMessage, kMeta},
                             {2, "data", Type::kBytesMap},
                             {3, "type"},
                             {4, "stringData", Type::kStringMap},
                             {5, "immutable", Type::kFlag}};
constexpr Field kNamespace[] = {{1, "metadata", Type::kMessage, kMeta}};
constexpr Field kReference[] = {{1, "kind"}, {2, "namespace"}, {3, "name"}};
constexpr Field kLocalReference[] = {{1, "name"}};
constexpr Field kServiceAccount[] = {{1, "metadata", Type::kMessage, kMeta},
                                     {2, "secrets", Type::kMessages, kReference},
                                     {3, "imagePullSecrets", Type::kMessages, kLocalReference},
                                     {4, "automountServiceAccountToken", Type::kFlag}};
constexpr Field kPreconditions[] = {{1, "uid"}, {2, "resourceVersion"}};
constexpr Field kDeleteOptions[] = {{1, "gracePeriodSeconds", Type::kInteger},
                                    {2, "preconditions", Type::kMessage, kPreconditions},
                                    {3, "orphanDependents", Type::kFlag},
                                    {4, "propagationPolicy"},
                                    {5, "dryRun", Type::kStrings}};
constexpr Field kTypeMeta[] = {{1, "apiVersion"}, {2, "kind"}};
constexpr Field kUnknown[] = {{1, "typeMeta", Type::kMessage, kTypeMeta}, {2, "raw"}};

// The wire format: https://protobuf.dev/programming-guides/encoding
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool done() const { return bytes_.empty(); }

  Result<std::uint64_t> Number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) break;
      const auto byte = static_cast<unsigned char>(bytes_[0]);
      bytes_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return Fail(Code::kInvalid, "a number is cut off");
  }

  Result<std::string_view> Bytes() {
    ASSIGN_OR_RETURN(const std::uint64_t size, Number());
    return Take(size);
  }

  Result<void> Skip(std::uint64_t wire_type) {
    switch (wire_type) {
      case 0:
        RETURN_IF_ERROR(Number());
        return {};
      case 1:
        RETURN_IF_ERROR(Take(8));
        return {};
      case 2:
        RETURN_IF_ERROR(Bytes());
        return {};
      case 5:
        RETURN_IF_ERROR(Take(4));
        return {};
      default:
        return Fail(Code::kInvalid, "wire type {} is unknown", wire_type);
    }
  }

 private:
  Result<std::string_view> Take(std::uint64_t size) {
    if (size > bytes_.size()) return Fail(Code::kInvalid, "a field is cut off");
    const std::string_view out = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return out;
  }

  std::string_view bytes_;
};

Result<Json> ReadMessage(std::string_view bytes, std::span<const Field> fields);

Result<void> ReadEntry(std::string_view bytes, bool encoded, Json& map) {
  constexpr Field kEntry[] = {{1, "key"}, {2, "value"}};
  ASSIGN_OR_RETURN(const Json entry, ReadMessage(bytes, kEntry));
  const std::string value = entry.value("value", "");
  map[entry.value("key", "")] = encoded ? Base64Encode(value) : value;
  return {};
}

Result<void> ReadField(Reader& reader, const Field& field, Json& out) {
  if (field.type == Type::kInteger || field.type == Type::kFlag) {
    ASSIGN_OR_RETURN(const std::uint64_t number, reader.Number());
    if (field.type == Type::kFlag) {
      out[field.name] = number != 0;
    } else {
      out[field.name] = static_cast<std::int64_t>(number);
    }
    return {};
  }
  ASSIGN_OR_RETURN(const std::string_view bytes, reader.Bytes());
  switch (field.type) {
    case Type::kBytes:
      out[field.name] = Base64Encode(bytes);
      return {};
    case Type::kStrings:
      out[field.name].push_back(std::string(bytes));
      return {};
    case Type::kMessage: {
      ASSIGN_OR_RETURN(out[field.name], ReadMessage(bytes, field.message));
      return {};
    }
    case Type::kMessages: {
      ASSIGN_OR_RETURN(Json item, ReadMessage(bytes, field.message));
      out[field.name].push_back(std::move(item));
      return {};
    }
    case Type::kStringMap:
      return ReadEntry(bytes, false, out[field.name]);
    case Type::kBytesMap:
      return ReadEntry(bytes, true, out[field.name]);
    default:
      // Go writes every field, also those that nobody has set.
      if (!bytes.empty()) out[field.name] = std::string(bytes);
      return {};
  }
}

Result<Json> ReadMessage(std::string_view bytes, std::span<const Field> fields) {
  Json out = Json::object();
  Reader reader(bytes);
  while (!reader.done()) {
    ASSIGN_OR_RETURN(const std::uint64_t tag, reader.Number());
    const std::uint64_t wire_type = tag & 7;
    const Field* known = nullptr;
    for (const Field& field : fields) {
      const bool varint = field.type == Type::kInteger || field.type == Type::kFlag;
      if (field.number == tag >> 3 && wire_type == (varint ? 0u : 2u)) known = &field;
    }
    if (known == nullptr) {
      RETURN_IF_ERROR(reader.Skip(wire_type));
    } else {
      RETURN_IF_ERROR(ReadField(reader, *known, out));
    }
  }
  return out;
}

std::span<const Field> FieldsOf(std::string_view kind) {
  if (kind == "ConfigMap") return kConfigMap;
  if (kind == "Secret") return kSecret;
  if (kind == "Namespace") return kNamespace;
  if (kind == "ServiceAccount") return kServiceAccount;
  if (kind == "DeleteOptions") return kDeleteOptions;
  return {};
}

}  // namespace

Result<Json> FromProtobuf(std::string_view body) {
  if (!body.starts_with(kMagic))
    return Fail(Code::kInvalid, "the body is no protobuf of Kubernetes");
  ASSIGN_OR_RETURN(const Json unknown, ReadMessage(body.substr(kMagic.size()), kUnknown));
  const Json type = unknown.value("typeMeta", Json::object());
  const std::string kind = type.value("kind", "");
  const auto fields = FieldsOf(kind);
  if (fields.empty()) {
    return Fail(Code::kNotSupported, "kind {} in protobuf is not supported: send JSON", kind);
  }
  // The text is bytes to JSON, and never printed.
  ASSIGN_OR_RETURN(Json out, ReadMessage(unknown.value("raw", ""), fields));
  out["apiVersion"] = type.value("apiVersion", "");
  out["kind"] = kind;
  return out;
}

}  // namespace paddleop::standalone::apiserver
