// What a pass over a PaddleJob sees, and what it wants done. Plain values: decide.h turns one into
// the other.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/batch/paddle_job.h"
#include "api/batch/sample_set.h"
#include "api/core/objects.h"
#include "api/core/pod.h"
#include "controllers/common/changes.h"

namespace paddleop::controllers::paddlejob {

// Condition types and reasons, which programs may rely on.
namespace condition {
inline constexpr char kAccepted[] = "Accepted";    // the spec can be carried out
inline constexpr char kDataReady[] = "DataReady";  // the SampleSet is as waitFor wants it; latched
inline constexpr char kRunning[] = "Running";      // the reason says what is missing
inline constexpr char kSuspended[] = "Suspended";
inline constexpr char kCompleted[] = "Completed";
inline constexpr char kFailed[] = "Failed";
}  // namespace condition

struct Settings {
  bool volcano = false;                   // --scheduling=volcano
  std::vector<std::string> etcd_servers;  // host:port each
};

struct Observed {
  std::shared_ptr<const api::PaddleJob> job;
  std::vector<std::shared_ptr<const api::Pod>> pods;          // that the job controls
  std::vector<std::shared_ptr<const api::Service>> services;  // that the job controls
  std::shared_ptr<const api::ConfigMap> config_map;           // that the job controls
  std::shared_ptr<const api::PodGroup> pod_group;             // named as the job, whoever made it
  std::shared_ptr<const api::SampleSet> sample_set;           // the one referred to
  std::vector<std::shared_ptr<const api::Node>> cache_nodes;  // that carry the set's label
  // First ports of the blocks that are the job's in Host mode: as many as its pods need, or fewer
  // if the range is used up.
  std::vector<int> port_blocks;
  api::Time now{};
};

struct Plan {
  api::PaddleJobStatus status;
  // The status says which gang the steps are about, or that the job is over: store it before they
  // happen. Otherwise it comes last, so that a crash only repeats the work.
  bool status_first = false;
  // Merge patch of the job's own metadata; before the steps.
  std::string job_patch;
  std::vector<ChangeStep> steps;  // one after the other
  std::vector<ChangeNote> notes;  // events, once everything is done
  bool delete_job = false;
  // Number of workers to announce under the job's np key in etcd; -1 removes the key.
  std::optional<int> elastic_np;
  std::optional<std::chrono::seconds> recheck;

  void RecheckAfter(std::chrono::seconds delay) {
    if (delay < std::chrono::seconds(1)) delay = std::chrono::seconds(1);
    if (!recheck || delay < *recheck) recheck = delay;
  }
  void Tell(bool warning, std::string reason, std::string message) {
    notes.push_back({warning, std::move(reason), std::move(message)});
  }
};

}  // namespace paddleop::controllers::paddlejob
