#include "controllers/common/changes.h"

#include <fmt/format.h>

#include <latch>
#include <optional>

#include "base/mutex.h"

namespace paddleop::controllers {

ChangeApplier::ChangeApplier(kube::ClusterClient& client, ThreadPool& pool, Learn learn)
    : client_(client), pool_(pool), learn_(std::move(learn)) {}

Result<void> ChangeApplier::Apply(const Context& ctx, const std::string& owner_label,
                                  const std::string& owner_uid,
                                  const std::vector<ChangeStep>& steps) {
  for (const ChangeStep& step : steps) {
    std::vector<Task> tasks;
    for (const auto& remove : step.deletes) tasks.push_back([&] { return DeleteOne(ctx, remove); });
    for (const auto& create : step.creates)
      tasks.push_back([&] { return CreateOne(ctx, owner_label, owner_uid, create); });
    for (const auto& patch : step.patches) tasks.push_back([&] { return PatchOne(ctx, patch); });
    RETURN_IF_ERROR(RunAll(ctx, std::move(tasks)));
  }
  return {};
}

Result<void> ChangeApplier::RunAll(const Context& ctx, std::vector<Task> tasks) {
  if (tasks.empty()) return {};
  Mutex mutex;
  std::optional<Status> first;
  const auto run = [&](const Task& task) {
    auto done = task();
    if (done) return;
    MutexLock lock(mutex);
    if (!first) first = std::move(done).error();
  };
  // The last one runs here; this thread would only wait otherwise.
  std::latch left(std::ssize(tasks) - 1);
  for (std::size_t i = 0; i + 1 < tasks.size(); ++i) {
    auto queued = pool_.Submit(ctx, [&, i] {
      run(tasks[i]);
      left.count_down();
    });
    if (!queued) {
      run([&]() -> Result<void> { return std::unexpected(queued.error()); });
      left.count_down();
    }
  }
  run(tasks.back());
  left.wait();
  if (first) return std::unexpected(*std::move(first));
  return {};
}

Result<void> ChangeApplier::CreateOne(const Context& ctx, const std::string& owner_label,
                                      const std::string& owner_uid, const CreateObject& create) {
  auto made = client_.Create(ctx, create.type, create.key.ns, create.json);
  if (made) {
    learn_(create.type, *made);
    return {};
  }
  const std::string what = fmt::format("{} {}", create.type.kind, create.key.ToString());
  if (!IsAlreadyExists(made.error()))
    return std::unexpected(std::move(made).error().Wrap("create " + what));
  auto existing = client_.Get(ctx, create.type, create.key);
  if (!existing && IsNotFound(existing.error()))
    return Fail(Code::kConflict, "{} went away meanwhile", what);
  if (!existing) return std::unexpected(std::move(existing).error());
  if (existing->Label(owner_label) != owner_uid) {
    return Fail(Code::kAlreadyExists,
                "{} exists and was not made for this object; delete it, or choose another name",
                what);
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
