#include "controllers/paddlejob/testing/world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "controllers/paddlejob/names.h"

namespace paddleop::controllers::paddlejob::testing {

using api::Json;

namespace {

template <class T>
std::shared_ptr<const T> Share(const T& value) {
  return std::make_shared<const T>(value);
}

template <class T>
T Parse(const std::string& json, std::string uid, api::Time now) {
  auto parsed = api::ParseAs<T>(json);
  EXPECT_TRUE(parsed.has_value()) << json;
  T object = parsed ? *std::move(parsed) : T();
  object.metadata.uid = std::move(uid);
  object.metadata.creation_timestamp = now;
  return object;
}

}  // namespace

std::string RoleJson(int replicas, std::string_view pod_spec) {
  return fmt::format(R"({{"replicas":{},"template":{{"spec":{}}}}})", replicas, pod_spec);
}

World::World(std::string_view spec, std::string name, Settings settings)
    : settings_(std::move(settings)) {
  const Json json = {
      {"metadata", {{"name", name}, {"namespace", "default"}, {"uid", "job"}, {"generation", 1}}},
      {"spec", Json::parse(spec)}};
  auto job = api::PaddleJob::FromJson(json);
  EXPECT_TRUE(job.has_value()) << (job ? "" : job.error().message());
  if (job) job_ = *std::move(job);
  job_.metadata.creation_timestamp = now;
}

Observed World::Look() const {
  Observed seen;
  seen.job = Share(job_);
  for (const auto& pod : pods_) seen.pods.push_back(Share(pod));
  for (const auto& service : services_) seen.services.push_back(Share(service));
  if (config_map_) seen.config_map = Share(*config_map_);
  if (pod_group_) seen.pod_group = Share(*pod_group_);
  if (sample_set_) seen.sample_set = Share(*sample_set_);
  for (const auto& node : nodes_) seen.cache_nodes.push_back(Share(node));
  seen.port_blocks = port_blocks;
  seen.now = now;
  return seen;
}

Plan World::Step() {
  Plan plan = Decide(settings_, Look());
  CarryOut(plan);
  return plan;
}

std::vector<Plan> World::Settle() {
  std::vector<Plan> plans;
  for (int i = 0; i < 20; ++i) {
    const auto before = job_.status;
    Plan plan = Step();
    if (plan.steps.empty() && plan.status == before && plan.job_patch.empty() && !plan.delete_job)
      return plans;
    plans.push_back(std::move(plan));
  }
  ADD_FAILURE() << "decisions do not come to rest";
  return plans;
}

void World::CarryOut(const Plan& plan) {
  if (!(plan.status == job_.status)) ++requests;
  job_.status = plan.status;
  if (!plan.job_patch.empty()) {
    ++requests;
    const Json patch = Json::parse(plan.job_patch);
    if (patch["metadata"].contains("annotations")) {
      for (const auto& [key, value] : patch["metadata"]["annotations"].items())
        job_.metadata.annotations[key] = value;
    }
    if (patch["metadata"].contains("finalizers")) {
      job_.metadata.finalizers = patch["metadata"]["finalizers"].get<std::vector<std::string>>();
    }
  }
  for (const auto& step : plan.steps) {
    for (const auto& remove : step.deletes) Remove(remove);
    for (const auto& create : step.creates) Make(create);
    for (const auto& patch : step.patches) {
      ++requests;
      if (pod_group_ && patch.type == api::PodGroup::kType) {
        pod_group_->min_member = Json::parse(patch.json)["spec"]["minMember"];
      }
    }
  }
  notes.insert(notes.end(), plan.notes.begin(), plan.notes.end());
}

void World::Make(const CreateObject& create) {
  ++requests;
  const std::string uid = "uid-" + std::to_string(next_uid_++);
  if (create.type == api::Pod::kType) {
    EXPECT_EQ(FindPod(create.key.name), nullptr) << create.key.name << " exists already";
    auto pod = Parse<api::Pod>(create.json, uid, now);
    pod.phase = api::PodPhase::kPending;
    pods_.push_back(std::move(pod));
    std::erase_if(pod_json_, [&](auto& entry) { return entry.first == create.key.name; });
    pod_json_.emplace_back(create.key.name, create.json);
  } else if (create.type == api::Service::kType) {
    services_.push_back(Parse<api::Service>(create.json, uid, now));
  } else if (create.type == api::ConfigMap::kType) {
    EXPECT_FALSE(config_map_.has_value());
    config_map_ = Parse<api::ConfigMap>(create.json, uid, now);
  } else if (create.type == api::PodGroup::kType) {
    EXPECT_FALSE(pod_group_.has_value());
    pod_group_ = Parse<api::PodGroup>(create.json, uid, now);
  } else {
    ADD_FAILURE() << "unexpected kind " << create.type.kind;
  }
}

void World::Remove(const DeleteObject& remove) {
  ++requests;
  if (remove.type == api::Pod::kType) {
    api::Pod* pod = FindPod(remove.key.name);
    ASSERT_NE(pod, nullptr);
    EXPECT_EQ(pod->metadata.uid, remove.uid);
    EXPECT_FALSE(pod->metadata.Deleting()) << remove.key.name << " is deleted twice";
    pod->metadata.deletion_timestamp = now;
    if (!slow_deletion) Reap();
  } else if (remove.type == api::Service::kType) {
    EXPECT_EQ(std::erase_if(services_, [&](auto& s) { return s.metadata.name == remove.key.name; }),
              1u);
  } else if (remove.type == api::ConfigMap::kType) {
    EXPECT_TRUE(config_map_.has_value());
    config_map_.reset();
  } else if (remove.type == api::PodGroup::kType) {
    EXPECT_TRUE(pod_group_.has_value());
    pod_group_.reset();
  }
}

void World::Reap() {
  std::erase_if(pods_, [](const api::Pod& pod) { return pod.metadata.Deleting(); });
}

bool World::BringUp() {
  Settle();
  RunAll();
  Settle();
  return status().phase == "Running";
}

void World::Edit(const std::function<void(api::PaddleJobSpec&)>& edit) {
  edit(job_.spec);
  ++job_.metadata.generation;
}

std::vector<std::string> World::PodNames() const {
  std::vector<std::string> names;
  names.reserve(pods_.size());
  for (const auto& pod : pods_) names.push_back(pod.metadata.name);
  return names;
}

std::vector<std::string> World::ServiceNames() const {
  std::vector<std::string> names;
  names.reserve(services_.size());
  for (const auto& service : services_) names.push_back(service.metadata.name);
  return names;
}

api::Pod* World::FindPod(const std::string& name) {
  for (auto& pod : pods_) {
    if (pod.metadata.name == name) return &pod;
  }
  return nullptr;
}

Json World::PodJson(const std::string& name) const {
  for (const auto& [pod, json] : pod_json_) {
    if (pod == name) return Json::parse(json);
  }
  ADD_FAILURE() << name << " was never created";
  return Json::object();
}

void World::PlaceAll() {
  int i = 1;
  for (auto& pod : pods_) {
    if (pod.node_name.empty()) pod.node_name = "node-" + std::to_string(i);
    if (pod.pod_ip.empty()) pod.pod_ip = "10.0.0." + std::to_string(next_uid_++);
    ++i;
  }
}

void World::RunAll() {
  PlaceAll();
  for (auto& pod : pods_) {
    if (!pod.Finished()) SetPhase(pod.metadata.name, api::PodPhase::kRunning);
  }
}

void World::SetPhase(const std::string& name, api::PodPhase phase, int exit_code) {
  api::Pod* pod = FindPod(name);
  ASSERT_NE(pod, nullptr) << name;
  pod->phase = phase;
  api::ContainerStatus container;
  container.name = "c";
  container.ready = phase == api::PodPhase::kRunning;
  container.state = phase == api::PodPhase::kRunning ? api::ContainerStatus::State::kRunning
                                                     : api::ContainerStatus::State::kTerminated;
  container.exit_code = exit_code;
  if (exit_code != 0) container.reason = "Error";
  pod->containers = {container};
}

void World::LosePod(const std::string& name) {
  EXPECT_EQ(std::erase_if(pods_, [&](auto& pod) { return pod.metadata.name == name; }), 1u);
}

void World::SetSampleSet(std::string phase) {
  sample_set_.emplace();
  sample_set_->metadata.name = job_.spec.sample_set_ref->name;
  sample_set_->metadata.ns = "default";
  sample_set_->status.phase = std::move(phase);
}

void World::AddCacheNode(const std::string& name, const std::string& runtime_pod, bool ready) {
  api::Node node;
  node.metadata.name = name;
  node.ready = ready;
  node.metadata.labels[api::SampleSetLabel(job_.spec.sample_set_ref->name)] = runtime_pod;
  nodes_.push_back(std::move(node));
}

std::string EnvOf(const Json& pod, const std::string& name) {
  for (const Json& entry : pod["spec"]["containers"][0]["env"]) {
    if (entry["name"] != name) continue;
    if (entry.contains("value")) return entry["value"];
    const Json& from = entry["valueFrom"];
    if (from.contains("fieldRef")) return "$" + from["fieldRef"]["fieldPath"].get<std::string>();
    return "#" + from["configMapKeyRef"]["key"].get<std::string>();
  }
  return "";
}

}  // namespace paddleop::controllers::paddlejob::testing
