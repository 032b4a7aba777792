#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta/json.h"
#include "base/clock.h"
#include "kube/wire/options.h"
#include "standalone/apiserver/api_error.h"
#include "standalone/apiserver/schema.h"
#include "standalone/apiserver/store.h"

namespace paddleop::standalone::apiserver {

enum class FieldValidation { kIgnore, kWarn, kStrict };

struct WriteOptions {
  bool dry_run = false;
  FieldValidation fields = FieldValidation::kWarn;
  std::vector<std::string> duplicates = {};  // fields that the body has twice
  std::vector<std::string>* warnings = nullptr;
  std::string_view patch = {};  // what the new version comes from, if it is a patch
};

struct DeleteRequest {
  std::optional<std::int64_t> grace_seconds;
  kube::Propagation propagation = kube::Propagation::kServerDefault;
  std::string uid;               // must be this one
  std::string resource_version;  // must be this one
  bool dry_run = false;
};

// The rules of writing, as the API has them, whoever asks: names, versions, generations, defaults,
// validation, finalizers, grace periods.
//
// Thread-safe.
class Objects {
 public:
  Objects(Store& store, const SchemaSet& schemas, Clock& clock);

  Answer<ObjectPtr> Get(const Kind& kind, const api::ObjectKey& key) const;
  // All of them, or those of one namespace.
  Store::Snapshot List(const Kind& kind, const std::string& ns) const;
  Answer<ObjectPtr> Create(const Kind& kind, const std::string& ns, api::Json body,
                           const WriteOptions& options);
  // `subresource` is "status" or empty.
  Answer<ObjectPtr> Update(const Kind& kind, const api::ObjectKey& key,
                           std::string_view subresource, api::Json body,
                           const WriteOptions& options);
  Answer<ObjectPtr> Patch(const Kind& kind, const api::ObjectKey& key, std::string_view subresource,
                          std::string_view content_type, std::string_view patch,
                          const WriteOptions& options);

  struct Deleted {
    ObjectPtr object;   // its last state
    bool gone = false;  // false: finalizers or a grace period hold it
  };
  Answer<Deleted> Delete(const Kind& kind, const api::ObjectKey& key, const DeleteRequest& request);

  // Puts a pod on a node: what a scheduler asks for.
  Answer<ObjectPtr> Bind(const api::ObjectKey& pod, const std::string& node,
                         const std::string& uid);
  // Changes an object by the server's own rules: nothing is checked. `change` may be called again
  // when somebody else was faster; false: leave it as it is.
  Answer<ObjectPtr> Change(const Kind& kind, const api::ObjectKey& key,
                           const std::function<bool(api::Json& object)>& change);
  // A namespace that is empty by now, gone for good.
  Answer<ObjectPtr> RemoveNamespace(const ObjectPtr& space);

  Store& store() { return store_; }
  const SchemaSet& schemas() const { return schemas_; }

 private:
  using Make = std::function<Answer<api::Json>(const api::Json& current)>;

  Answer<ObjectPtr> Modify(const Kind& kind, const api::ObjectKey& key,
                           std::string_view subresource, bool versioned,
                           const WriteOptions& options, const Make& make);
  Answer<api::Json> Prepare(const Kind& kind, std::string_view subresource, const api::Json& before,
                            api::Json after, const WriteOptions& options) const;
  Answer<void> Read(const Kind& kind, api::Json& object, const WriteOptions& options) const;
  Answer<void> CheckNamespace(const Kind& kind, const std::string& ns, std::string_view name) const;
  Answer<ObjectPtr> Replace(const Kind& kind, const ObjectPtr& before, api::Json after,
                            bool dry_run);
  api::Json MarkDeleted(const Kind& kind, api::Json object, std::int64_t grace,
                        const DeleteRequest& request) const;
  std::string Now(std::int64_t later_seconds = 0) const;

  Store& store_;
  const SchemaSet& schemas_;
  Clock& clock_;
};

}  // namespace paddleop::standalone::apiserver
