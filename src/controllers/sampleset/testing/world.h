// A cluster small enough to be a value: it carries plans out, so that tests of decisions can see
// where they lead. It imitates nothing else of a server.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "controllers/sampleset/decide.h"
#include "controllers/sampleset/plan.h"

namespace paddleop::controllers::sampleset::testing {

// The spec of a set with three partitions.
inline constexpr std::string_view kThree =
    R"({"partitions":3,"source":{"uri":"bos://b.bj.bcebos.com/p"},"secretRef":{"name":"volume"}})";

class World {
 public:
  // `spec` is the JSON of the set's spec. The set is data/<name>; its Secret "volume" is complete.
  explicit World(std::string_view spec, std::string name = "s");

  // One decision, carried out.
  Plan Step();
  // Decides and carries out until a plan changes nothing, or `most` times.
  void Settle(int most = 40);

  api::SampleSet& set() { return set_; }
  const api::SampleSetStatus& status() const { return set_.status; }
  // Changes the spec as kubectl would: the generation grows.
  void Edit(const std::function<void(api::SampleSetSpec&)>& edit);
  const api::Condition* Condition(const char* type) const;

  void SetSecret(const std::map<std::string, std::string>& values);
  void DropSecret() { secret_ = {SecretView::State::kMissing, {"data", "volume"}, nullptr}; }

  bool HasStatefulSet() const { return stateful_set_.has_value(); }
  std::int32_t replicas() const { return stateful_set_ ? stateful_set_->replicas : -1; }
  api::StatefulSet* stateful_set() { return stateful_set_ ? &*stateful_set_ : nullptr; }
  // The JSON that the object was created with, or its last patch.
  api::Json JsonOf(const std::string& name) const;
  std::vector<std::string> ObjectNames() const;
  // Node to value of the set's label.
  std::map<std::string, std::string> Labels() const;

  // --- what others would do ---
  bool bind_volumes = true;
  bool run_pods = true;     // pods of the StatefulSet become ready on nodes of their own
  bool finish_jobs = true;  // a posted job succeeds at once
  bool purge_works = true;
  bool plain_name_taken = false;
  api::Time now{std::chrono::seconds(1'700'000'000)};
  // By name: what runtime 0 knows.
  std::map<std::string, runtime::JobResult> jobs;
  std::vector<runtime::JobRequest> posts;
  std::vector<std::string> cancelled;
  bool answers = true;  // do runtimes answer?
  std::map<std::int32_t, runtime::CacheInfo> infos;
  std::map<std::int32_t, std::string> node_of;  // where the pod of a partition goes
  std::set<std::int32_t> broken;                // partitions whose pod is not ready
  std::set<std::int32_t> absent;                // partitions without a pod
  std::map<std::string, bool> node_ready;       // of nodes that are known
  std::set<std::int32_t> terminating;           // partitions whose pod is on its way out
  std::vector<api::PaddleJob> users;
  std::optional<api::Time> last_sync;

  std::vector<ChangeNote> notes;
  std::vector<runtime::PeerTable> tables;
  int writes = 0;  // that the plans asked for
  int purges = 0;
  int auth_works = 0;
  bool gone = false;                  // the finalizer was dropped
  std::vector<std::string> given_up;  // pods deleted at once

  bool Said(std::string_view reason) const;

 private:
  Observed Look();
  void CarryOut(const Plan& plan);
  void Make(const CreateObject& create);
  void Change(const PatchObject& patch);
  void Delete(const DeleteObject& remove);
  void FillRuntimes(Observed& seen);

  api::SampleSet set_;
  SecretView secret_;
  std::map<std::string, std::string> json_;  // kind/name to JSON
  std::optional<api::PersistentVolume> volume_;
  std::optional<api::PersistentVolumeClaim> claim_;
  std::optional<api::Service> service_;
  std::optional<api::StatefulSet> stateful_set_;
  std::optional<api::SecretObject> auth_;
  std::optional<api::SecretObject> volume_copy_;
  std::map<std::string, std::string> labels_;
};

}  // namespace paddleop::controllers::sampleset::testing
