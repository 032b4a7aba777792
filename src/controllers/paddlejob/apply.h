#pragma once

#include <functional>
#include <string>

#include "base/context.h"
#include "base/thread_pool.h"
#include "controllers/paddlejob/children.h"
#include "controllers/paddlejob/plan.h"
#include "kube/client/cluster_client.h"

namespace paddleop::controllers::paddlejob {

// Carries steps out. What a step holds happens in parallel; the next step waits for it. The
// server's answers go into the caches at once, so that the next pass does not do it all again.
//
// Thread-safe.
class Applier {
 public:
  // `pool` runs the requests of large steps; it is shared by all jobs.
  Applier(kube::ClusterClient& client, Children& children, ThreadPool& pool);

  // The first failure, after everything that was started has ended. kAlreadyExists: an object of
  // that name exists and belongs to somebody else. An object of ours that exists already, or is
  // gone already, is no failure.
  Result<void> Apply(const Context& ctx, const api::ObjectMeta& job,
                     const std::vector<Step>& steps);

 private:
  using Task = std::function<Result<void>()>;

  Result<void> RunAll(const Context& ctx, std::vector<Task> tasks);
  Result<void> CreateOne(const Context& ctx, const api::ObjectMeta& job, const Create& create);
  Result<void> DeleteOne(const Context& ctx, const api::ObjectMeta& job, const Delete& remove);
  Result<void> PatchOne(const Context& ctx, const api::ObjectMeta& job, const Patch& patch);

  kube::ClusterClient& client_;
  Children& children_;
  ThreadPool& pool_;
};

}  // namespace paddleop::controllers::paddlejob
