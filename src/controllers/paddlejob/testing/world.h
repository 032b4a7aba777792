// A cluster small enough to be a value: it carries plans out, so that tests of decisions can see
// where they lead. It imitates nothing else of a server.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "controllers/paddlejob/decide.h"
#include "controllers/paddlejob/plan.h"

namespace paddleop::controllers::paddlejob::testing {

class World {
 public:
  // `spec` is the JSON of the job's spec. The job is default/<name> with UID "job".
  explicit World(std::string_view spec, std::string name = "j", Settings settings = {});

  // One decision, carried out.
  Plan Step();
  // Decides and carries out until a plan changes nothing. The plans, without the last, empty one.
  std::vector<Plan> Settle();
  // Settles, lets all pods run, settles again. False if the job does not run then.
  bool BringUp();

  api::PaddleJob& job() { return job_; }
  const api::PaddleJobStatus& status() const { return job_.status; }
  Settings& settings() { return settings_; }
  // Changes the spec as kubectl would: the generation grows.
  void Edit(const std::function<void(api::PaddleJobSpec&)>& edit);

  std::vector<std::string> PodNames() const;
  // Null if there is none.
  api::Pod* FindPod(const std::string& name);
  // The JSON that pod `name` was created with.
  api::Json PodJson(const std::string& name) const;
  const api::ConfigMap* config_map() const { return config_map_ ? &*config_map_ : nullptr; }
  std::vector<std::string> ServiceNames() const;
  api::PodGroup* pod_group() { return pod_group_ ? &*pod_group_ : nullptr; }
  void SetPodGroup(api::PodGroup group) { pod_group_ = std::move(group); }

  // What kubelet would report.
  void PlaceAll();  // node and address; still Pending
  void RunAll();    // and Running
  void SetPhase(const std::string& name, api::PodPhase phase, int exit_code = 0);
  void LosePod(const std::string& name);  // gone, as after a drain

  void SetSampleSet(std::string phase);
  void AddCacheNode(const std::string& node, const std::string& runtime_pod, bool ready = true);
  void ClearCacheNodes() { nodes_.clear(); }

  api::Time now{std::chrono::seconds(1'700'000'000)};
  std::vector<int> port_blocks;
  // Pods that are deleted stay in this state until Reap().
  bool slow_deletion = false;
  void Reap();
  std::vector<ChangeNote> notes;  // of all plans
  int requests = 0;               // writes that the plans asked for, without events

 private:
  Observed Look() const;
  void CarryOut(const Plan& plan);
  void Make(const CreateObject& create);
  void Remove(const DeleteObject& remove);

  Settings settings_;
  api::PaddleJob job_;
  std::vector<api::Pod> pods_;
  std::vector<std::pair<std::string, std::string>> pod_json_;
  std::vector<api::Service> services_;
  std::optional<api::ConfigMap> config_map_;
  std::optional<api::PodGroup> pod_group_;
  std::optional<api::SampleSet> sample_set_;
  std::vector<api::Node> nodes_;
  int next_uid_ = 1;
};

// Value of an env entry of container 0, "$field" for a field reference, "#key" for a ConfigMap key;
// "" if absent.
std::string EnvOf(const api::Json& pod, const std::string& name);

// A role with one plain container, for specs: {"replicas": n, "template": ...}.
std::string RoleJson(int replicas,
                     std::string_view pod_spec = R"({"containers":[{"name":"c","image":"i"}]})");

}  // namespace paddleop::controllers::paddlejob::testing
