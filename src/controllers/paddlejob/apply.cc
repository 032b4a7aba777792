#include "controllers/paddlejob/apply.h"

#include <fmt/format.h>

#include <latch>
#include <optional>

#include "base/mutex.h"

namespace paddleop::controllers::paddlejob {

Applier::Applier(kube::ClusterClient& client, Children& children, ThreadPool& pool)
    : client_(client), children_(children), pool_(pool) {}

Result<void> Applier::Apply(const Context& ctx, const api::ObjectMeta& job,
                            const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    std::vector<Task> tasks;
    for (const auto& remove : step.deletes)
      tasks.push_back([&] { return DeleteOne(ctx, job, remove); });
    for (const auto& create : step.creates)
      tasks.push_back([&] { return CreateOne(ctx, job, create); });
    for (const auto& patch : step.patches)
      tasks.push_back([&] { return PatchOne(ctx, job, patch); });
    RETURN_IF_ERROR(RunAll(ctx, std::move(tasks)));
  }
  return {};
}

Result<void> Applier::RunAll(const Context& ctx, std::vector<Task> tasks) {
  if (tasks.empty()) return {};
  Mutex mutex;
  // Of several failures the same one is told every time, so that a status does not change with it.
  std::optional<Status> first;
  std::size_t failed = tasks.size();
  const auto run = [&](std::size_t i, const Task& task) {
    auto done = task();
    if (done) return;
    MutexLock lock(mutex);
    if (i >= failed) return;
    failed = i;
    first = std::move(done).error();
  };
  // The last one runs here; this thread would only wait otherwise.
  std::latch left(std::ssize(tasks) - 1);
  for (std::size_t i = 0; i + 1 < tasks.size(); ++i) {
    auto queued = pool_.Submit(ctx, [&, i] {
      run(i, tasks[i]);
      left.count_down();
    });
    if (!queued) {
      run(i, [&]() -> Result<void> { return std::unexpected(queued.error()); });
      left.count_down();
    }
  }
  run(tasks.size() - 1, tasks.back());
  left.wait();
  if (first) return std::unexpected(*std::move(first));
  return {};
}

Result<void> Applier::CreateOne(const Context& ctx, const api::ObjectMeta& job,
                                const Create& create) {
  auto made = client_.Create(ctx, create.type, job.ns, create.json);
  if (made) {
    children_.Learn(create.type, *made);
    return {};
  }
  if (!IsAlreadyExists(made.error())) {
    return std::unexpected(
        std::move(made).error().Wrap(fmt::format("create {} {}", create.type.kind, create.name)));
  }
  auto existing = client_.Get(ctx, create.type, {job.ns, create.name});
  if (!existing && IsNotFound(existing.error()))
    return Fail(Code::kConflict, "{} {} went away meanwhile", create.type.kind, create.name);
  if (!existing) return std::unexpected(std::move(existing).error());
  const api::OwnerReference* owner = existing->Controller();
  if (owner == nullptr || owner->uid != job.uid) {
    return Fail(Code::kAlreadyExists,
                "{} {} exists and does not belong to this job; delete it, or rename the job",
                create.type.kind, create.name);
  }
  children_.Learn(create.type, *existing);
  return {};
}

Result<void> Applier::DeleteOne(const Context& ctx, const api::ObjectMeta& job,
                                const Delete& remove) {
  kube::DeleteOptions options;
  options.preconditions.uid = remove.uid;
  auto done = client_.Delete(ctx, remove.type, {job.ns, remove.name}, options);
  // Gone, or another object by now: either way not there to be deleted.
  if (done || IsNotFound(done.error()) || IsConflict(done.error())) return {};
  return std::unexpected(
      std::move(done).error().Wrap(fmt::format("delete {} {}", remove.type.kind, remove.name)));
}

Result<void> Applier::PatchOne(const Context& ctx, const api::ObjectMeta& job, const Patch& patch) {
  auto done = client_.Patch(ctx, patch.type, {job.ns, patch.name}, kube::MergePatch(patch.json));
  if (!done)
    return std::unexpected(
        std::move(done).error().Wrap(fmt::format("patch {} {}", patch.type.kind, patch.name)));
  children_.Learn(patch.type, *done);
  return {};
}

}  // namespace paddleop::controllers::paddlejob
