#include "controllers/common/changes.h"

#include <fmt/format.h>

#include <latch>
#include <optional>

#include "base/mutex.h"

namespace paddleop::controllers {

ChangeOwner OwnerByLabel(std::string what, std::string label, std::string uid) {
  return {std::move(what),
          [label = std::move(label), uid = std::move(uid)](const kube::RawObject& object) {
            return object.Label(label) == uid;
          }};
}

ChangeOwner OwnerByReference(std::string what, std::string uid) {
  return {std::move(what), [uid = std::move(uid)](const kube::RawObject& object) {
            const api::OwnerReference* controller = object.Controller();
            return controller != nullptr && controller->uid == uid;
          }};
}

ChangeApplier::ChangeApplier(kube::ClusterClient& client, ThreadPool& pool, Learn learn)
    : client_(client), pool_(pool), learn_(std::move(learn)) {}

Result<void> ChangeApplier::Apply(const Context& ctx, const ChangeOwner& owner,
                                  const std::vector<ChangeStep>& steps) {
  for (const ChangeStep& step : steps) {
    std::vector<Task> tasks;
    tasks.reserve(step.deletes.size() + step.creates.size() + step.patches.size());
    for (const auto& remove : step.deletes)
      tasks.emplace_back([&] { return DeleteOne(ctx, remove); });
    for (const auto& create : step.creates)
      tasks.emplace_back([&] { return CreateOne(ctx, owner, create); });
    for (const auto& patch : step.patches) tasks.emplace_back([&] { return PatchOne(ctx, patch); });
    RETURN_IF_ERROR(RunAll(ctx, std::move(tasks)));
  }
  return {};
}

Result<void> ChangeApplier::RunAll(const Context& ctx, std::vector<Task> tasks) {
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

Result<void> ChangeApplier::CreateOne(const Context& ctx, const ChangeOwner& owner,
                                      const CreateObject& create) {
  auto made = client_.Create(ctx, create.type, create.key.ns, create.json);
  if (made) {
    learn_(create.type, *made);
    return {};
  }
  const std::string what = fmt::format("{} {}", create.type.kind, create.key.name);
  if (!IsAlreadyExists(made.error()))
    return std::unexpected(std::move(made).error().Wrap("create " + what));
  auto existing = client_.Get(ctx, create.type, create.key);
  if (!existing && IsNotFound(existing.error()))
    return Fail(Code::kConflict, "{} went away meanwhile", what);
  if (!existing) return std::unexpected(std::move(existing).error());
  if (!owner.owns(*existing)) {
    return Fail(Code::kAlreadyExists,
                "{} exists and does not belong to {}; delete it, or choose another name", what,
                owner.what);
  }
  learn_(create.type, *existing);
  return {};
}

Result<void> ChangeApplier::PatchOne(const Context& ctx, const PatchObject& patch) {
  auto done = client_.Patch(ctx, patch.type, patch.key,
                            kube::MergePatch(patch.json, "", {.uid = patch.uid}));
  if (!done) {
    return std::unexpected(std::move(done).error().Wrap(
        fmt::format("patch {} {}", patch.type.kind, patch.key.ToString())));
  }
  learn_(patch.type, *done);
  return {};
}

Result<void> ChangeApplier::DeleteOne(const Context& ctx, const DeleteObject& remove) {
  kube::DeleteOptions options;
  options.preconditions.uid = remove.uid;
  if (remove.at_once) options.grace_period = std::chrono::seconds(0);
  auto done = client_.Delete(ctx, remove.type, remove.key, options);
  // Gone, or another object by now: either way not there to be deleted.
  if (done || IsNotFound(done.error()) || IsConflict(done.error())) return {};
  return std::unexpected(std::move(done).error().Wrap(
      fmt::format("delete {} {}", remove.type.kind, remove.key.ToString())));
}

}  // namespace paddleop::controllers
