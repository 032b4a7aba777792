// What a pass over a SampleSet sees, and what it wants done. Plain values: decide.h turns one into
// the other.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/batch/paddle_job.h"
#include "api/batch/sample_job.h"
#include "api/batch/sample_set.h"
#include "api/core/objects.h"
#include "api/core/pod.h"
#include "controllers/common/changes.h"
#include "controllers/common/runtimes.h"
#include "controllers/common/secrets.h"
#include "runtime/protocol/job.h"
#include "runtime/protocol/status.h"

namespace paddleop::controllers::sampleset {

struct Settings {
  std::string runtime_image = "paddlepaddle/samplefs:v0.5.0";
  std::string mount_root = "/mnt";  // where runtime pods of driver juicefs mount the volume
  // Directories of the nodes that sources of the form file:///... may lie in; none by default.
  std::vector<std::string> source_dirs = {};
};

// One runtime pod and what its server answered.
struct RuntimeSeen {
  std::int32_t index = 0;
  std::shared_ptr<const api::Pod> pod;
  std::optional<runtime::CacheInfo> info;
  std::string error;  // why there is no info, if it was asked
};

struct Observed {
  std::shared_ptr<const api::SampleSet> set;
  // Is the set's plain name in cluster scope taken by somebody else? Only asked as long as
  // the set has nothing of that name.
  bool plain_name_taken = false;
  SecretView volume_secret;
  // For AllSources(), in order; only read while there is something to sync.
  std::vector<SecretView> source_secrets;

  std::shared_ptr<const api::PersistentVolume> volume;
  std::shared_ptr<const api::PersistentVolumeClaim> claim;
  std::shared_ptr<const api::Service> service;
  std::shared_ptr<const api::StatefulSet> stateful_set;
  std::shared_ptr<const api::SecretObject> auth;           // <set>-runtime-auth
  std::shared_ptr<const api::SecretObject> volume_copy;    // <set>-volume
  std::vector<RuntimeSeen> runtimes;                       // by index
  std::vector<std::shared_ptr<const api::Node>> labelled;  // nodes with the set's label
  // Nodes of runtime pods, by name; a name without a value is a node that is gone.
  std::map<std::string, std::shared_ptr<const api::Node>> nodes;
  std::vector<std::shared_ptr<const api::PaddleJob>> users;  // PaddleJobs that refer to the set
  std::optional<api::Time> last_sync;  // end of the latest SampleJob that imported data
  bool data_job_active = false;        // a SampleJob of this set is at work
  // Absent: runtime 0 was not asked, or did not answer.
  std::optional<JobSeen> sync_job;
  std::optional<JobSeen> warmup_job;
  api::Time now{};
};

// What has to be done about <set>-runtime-auth.
struct AuthWork {
  bool authority = false;      // make one; everything else comes new with it
  bool certificate = false;    // issue another one
  bool token = false;          // make another one; the present one becomes the previous
  bool drop_previous = false;  // its hour is over

  bool any() const { return authority || certificate || token || drop_previous; }
};

struct Plan {
  api::SampleSetStatus status;
  // The status names what the steps and jobs are about: store it before they happen. Otherwise it
  // comes last, so that a crash only repeats the work.
  bool status_first = false;
  std::string set_patch;  // merge patch of the set's own metadata; before everything else
  std::vector<ChangeStep> steps;
  // For every runtime that works by another one. Its generation is chosen by who sends it.
  std::optional<runtime::PeerTable> peers;
  // Posted to runtime 0 after the status is stored; credentials of the sources are in it.
  std::optional<runtime::JobRequest> post;
  std::vector<std::string> cancel;  // jobs to cancel on runtime 0
  // What to do about <set>-runtime-auth: before the steps, because pods need it.
  AuthWork auth;
  bool purge = false;  // drop the set's cached data on all nodes, before the steps
  // Partitions without whose answer to it the steps have to wait.
  std::set<std::int32_t> purge_first;
  std::vector<ChangeNote> notes;
  bool drop_finalizer = false;
  std::optional<std::chrono::seconds> recheck;

  void RecheckAfter(std::chrono::seconds delay) {
    if (delay < std::chrono::seconds(1)) delay = std::chrono::seconds(1);
    if (!recheck || delay < *recheck) recheck = delay;
  }
  void Tell(bool warning, std::string reason, std::string message) {
    notes.push_back({warning, std::move(reason), std::move(message)});
  }
};

// Condition types of a SampleSet.
namespace condition {
inline constexpr char kAccepted[] = "Accepted";        // the spec makes sense, names are ours
inline constexpr char kSecretReady[] = "SecretReady";  // the volume's Secret is there and complete
inline constexpr char kVolumeBound[] = "VolumeBound";  // PV and PVC
inline constexpr char kRuntimeReady[] = "RuntimeReady";  // all partitions serve
inline constexpr char kSynced[] = "Synced";              // the sources have been imported
inline constexpr char kWarmed[] = "Warmed";              // the cache is laid out for the partitions
inline constexpr char kReady[] = "Ready";
inline constexpr char kDeletable[] = "Deletable";  // only while being deleted
}  // namespace condition

}  // namespace paddleop::controllers::sampleset
