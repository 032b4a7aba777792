// What a controller wants written, as values, and the one who writes it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/thread_pool.h"
#include "kube/client/cluster_client.h"

namespace paddleop::controllers {

struct CreateObject {
  api::ResourceType type;
  kube::ObjectKey key;  // without a namespace for cluster-scoped kinds
  std::string json;
};
struct PatchObject {
  api::ResourceType type;
  kube::ObjectKey key;
  std::string json;  // merge patch
  std::string uid;   // empty: whatever has the name
};
struct DeleteObject {
  api::ResourceType type;
  kube::ObjectKey key;
  std::string uid;
  bool at_once = false;  // a pod whose node is lost: nobody will confirm its end
};

// Things that may happen at the same time.
struct ChangeStep {
  std::vector<CreateObject> creates;
  std::vector<PatchObject> patches;
  std::vector<DeleteObject> deletes;

  bool empty() const { return creates.empty() && patches.empty() && deletes.empty(); }
};

struct ChangeNote {
  bool warning = false;
  std::string reason;
  std::string message;

  bool operator==(const ChangeNote&) const = default;
};

// Whom the objects of a plan belong to.
struct ChangeOwner {
  std::string what;  // as in "this job"
  std::function<bool(const kube::RawObject& object)> owns;
};
// It owns what carries the label.
ChangeOwner OwnerByLabel(std::string what, std::string label, std::string uid);
// It owns what it controls.
ChangeOwner OwnerByReference(std::string what, std::string uid);

// Carries steps out. What a step holds happens in parallel; the next step waits for it.
//
// Thread-safe.
class ChangeApplier {
 public:
  // Takes the server's answer to a write, so that the next pass sees it.
  using Learn = std::function<void(const api::ResourceType& type, const kube::RawObject& raw)>;

  ChangeApplier(kube::ClusterClient& client, ThreadPool& pool, Learn learn);

  // The first failure, after everything that was started has ended. kAlreadyExists: an object of
  // that name exists and belongs to somebody else. An object of the owner's that exists already, or
  // is gone already, is no failure.
  Result<void> Apply(const Context& ctx, const ChangeOwner& owner,
                     const std::vector<ChangeStep>& steps);

  // Runs the tasks on the pool, the last one here; the first failure.
  using Task = std::function<Result<void>()>;
  Result<void> RunAll(const Context& ctx, std::vector<Task> tasks);

 private:
  Result<void> CreateOne(const Context& ctx, const ChangeOwner& owner, const CreateObject& create);
  Result<void> PatchOne(const Context& ctx, const PatchObject& patch);
  Result<void> DeleteOne(const Context& ctx, const DeleteObject& remove);

  kube::ClusterClient& client_;
  ThreadPool& pool_;
  Learn learn_;
};

}  // namespace paddleop::controllers
