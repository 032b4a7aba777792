#include "controllers/sampleset/testing/world.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "controllers/sampleset/credentials.h"
#include "controllers/sampleset/names.h"

namespace paddleop::controllers::sampleset::testing {
namespace {

template <class T>
std::shared_ptr<const T> Share(const std::optional<T>& object) {
  return object ? std::make_shared<const T>(*object) : nullptr;
}

template <class T>
T Parse(const std::string& json) {
  auto parsed = api::ParseAs<T>(json);
  EXPECT_TRUE(parsed.has_value()) << json;
  return parsed ? *std::move(parsed) : T();
}

}  // namespace

World::World(std::string_view spec, std::string name) {
  const api::Json json = {{"apiVersion", "batch.paddlepaddle.org/v1alpha1"},
                          {"kind", "SampleSet"},
                          {"metadata",
                           {{"name", name},
                            {"namespace", "data"},
                            {"uid", "12345678-0000-4000-8000-000000000001"},
                            {"generation", 1}}},
                          {"spec", api::Json::parse(spec)}};
  set_ = Parse<api::SampleSet>(json.dump());
  SetSecret({{"name", "vol"},
             {"storage", "redis"},
             {"bucket", "redis://h/1"},
             {"metaurl", "redis://h/0"}});
}

void World::SetSecret(const std::map<std::string, std::string>& values) {
  auto secret = std::make_shared<api::SecretObject>();
  secret->metadata.name = "volume";
  secret->metadata.ns = "data";
  static int version = 0;
  secret->metadata.resource_version = std::to_string(++version);
  for (const auto& [key, value] : values) secret->data.emplace(key, Secret(value));
  secret_ = {SecretView::State::kFound, {"data", "volume"}, secret};
}

void World::Edit(const std::function<void(api::SampleSetSpec&)>& edit) {
  edit(set_.spec);
  ++set_.metadata.generation;
}

const api::Condition* World::Condition(const char* type) const {
  return api::FindCondition(set_.status.conditions, type);
}

bool World::Said(std::string_view reason) const {
  for (const auto& note : notes) {
    if (note.reason == reason) return true;
  }
  return false;
}

void World::FillRuntimes(Observed& seen) {
  if (!stateful_set_ || !run_pods) return;
  for (std::int32_t i = 0; i < stateful_set_->replicas; ++i) {
    if (absent.contains(i)) continue;
    api::Pod pod;
    pod.metadata.name = api::RuntimePodName(set_.metadata.name, i);
    pod.metadata.ns = "data";
    pod.metadata.uid = fmt::format("pod-{}", i);
    pod.node_name = node_of.contains(i) ? node_of[i] : fmt::format("node-{}", i);
    pod.phase = api::PodPhase::kRunning;
    pod.ready = !broken.contains(i);
    pod.pod_ip = fmt::format("10.0.0.{}", i + 1);
    if (terminating.contains(i)) pod.metadata.deletion_timestamp = now - std::chrono::hours(1);
    node_ready.try_emplace(pod.node_name, true);
    auto node = std::make_shared<api::Node>();
    node->metadata.name = pod.node_name;
    node->ready = node_ready[pod.node_name];
    seen.nodes[pod.node_name] = node;
    RuntimeSeen runtime{
        .index = i, .pod = std::make_shared<const api::Pod>(pod), .info = {}, .error = {}};
    if (answers && pod.ready) {
      runtime::CacheInfo info = infos.contains(i) ? infos[i] : runtime::CacheInfo();
      info.index = static_cast<std::uint32_t>(i);
      info.ready = true;
      if (info.cache_id.empty()) info.cache_id = fmt::format("cache-{}", i);
      runtime.info = info;
    }
    seen.runtimes.push_back(std::move(runtime));
  }
}

Observed World::Look() {
  Observed seen;
  seen.set = std::make_shared<const api::SampleSet>(set_);
  seen.plain_name_taken = plain_name_taken && set_.status.volume_name.empty();
  seen.volume_secret = secret_;
  for (const auto& source : set_.spec.AllSources())
    seen.source_secrets.push_back(source.secret_ref ? secret_ : SecretView());
  if (volume_ && bind_volumes) volume_->phase = "Bound";
  if (claim_ && bind_volumes) claim_->phase = "Bound";
  seen.volume = Share(volume_);
  seen.claim = Share(claim_);
  seen.service = Share(service_);
  seen.stateful_set = Share(stateful_set_);
  seen.auth = Share(auth_);
  seen.volume_copy = Share(volume_copy_);
  FillRuntimes(seen);
  for (const auto& [name, value] : labels_) {
    auto node = std::make_shared<api::Node>();
    node->metadata.name = name;
    node->ready = !node_ready.contains(name) || node_ready[name];
    node->metadata.labels[set_.status.node_label] = value;
    seen.labelled.push_back(node);
  }
  for (const auto& user : users) seen.users.push_back(std::make_shared<const api::PaddleJob>(user));
  seen.last_sync = last_sync;
  const auto ask = [&](const std::string& name) -> std::optional<JobSeen> {
    if (!answers || name.empty() || seen.runtimes.empty()) return std::nullopt;
    const auto it = jobs.find(name);
    return it == jobs.end() ? JobSeen{} : JobSeen{true, it->second};
  };
  seen.sync_job = ask(set_.status.sync_job_name);
  seen.warmup_job = ask(set_.status.warmup_job_name);
  seen.now = now;
  return seen;
}

Plan World::Step() {
  const Observed seen = Look();
  Plan plan = Decide({}, seen);
  CarryOut(plan);
  now += std::chrono::seconds(1);
  return plan;
}

void World::Settle(int most) {
  for (int i = 0; i < most && !gone; ++i) {
    const int before = writes;
    Step();
    if (writes == before) return;
  }
}

void World::CarryOut(const Plan& plan) {
  if (!plan.set_patch.empty()) {
    ++writes;
    const auto patch = api::Json::parse(plan.set_patch);
    set_.metadata.finalizers = patch["metadata"]["finalizers"].get<std::vector<std::string>>();
    return;
  }
  if (plan.auth.any()) {
    ++writes;
    ++auth_works;
    auto made = MakeAuth(set_, auth_ ? &*auth_ : nullptr, plan.auth, now);
    ASSERT_TRUE(made.has_value());
    auto fresh = Parse<api::SecretObject>(made->json);
    if (!auth_) auth_.emplace();
    for (auto& [key, value] : fresh.data) auth_->data.insert_or_assign(key, value);
    const auto data = api::Json::parse(made->json)["data"];
    if (data.contains("token.previous") && data["token.previous"].is_null())
      auth_->data.erase("token.previous");
    auth_->metadata = fresh.metadata;
  }
  if (plan.purge) ++purges;
  const bool waits = plan.purge && !purge_works && !plan.purge_first.empty();
  for (const auto& step : waits ? std::vector<ChangeStep>() : plan.steps) {
    for (const auto& create : step.creates) Make(create);
    for (const auto& patch : step.patches) Change(patch);
    for (const auto& remove : step.deletes) Delete(remove);
  }
  if (plan.drop_finalizer) {
    gone = true;
    ++writes;
  }
  for (const auto& name : plan.cancel) cancelled.push_back(name);
  if (plan.peers && (tables.empty() || tables.back().peers != plan.peers->peers))
    tables.push_back(*plan.peers);
  if (plan.post) {
    ++writes;
    posts.push_back(*plan.post);
    runtime::JobResult result;
    result.name = plan.post->name;
    result.kind = plan.post->kind;
    result.state = finish_jobs ? runtime::JobState::kSucceeded : runtime::JobState::kRunning;
    jobs.try_emplace(plan.post->name, result);
  }
  if (!(plan.status == set_.status)) ++writes;
  set_.status = plan.status;
  notes.insert(notes.end(), plan.notes.begin(), plan.notes.end());
}

void World::Make(const CreateObject& create) {
  ++writes;
  json_[fmt::format("{}/{}", create.type.kind, create.key.name)] = create.json;
  if (create.type == api::PersistentVolume::kType)
    volume_ = Parse<api::PersistentVolume>(create.json);
  if (create.type == api::PersistentVolumeClaim::kType)
    claim_ = Parse<api::PersistentVolumeClaim>(create.json);
  if (create.type == api::Service::kType) service_ = Parse<api::Service>(create.json);
  if (create.type == api::StatefulSet::kType) stateful_set_ = Parse<api::StatefulSet>(create.json);
  if (create.type == api::SecretObject::kType) volume_copy_ = Parse<api::SecretObject>(create.json);
}

void World::Change(const PatchObject& patch) {
  ++writes;
  const auto json = api::Json::parse(patch.json);
  if (patch.type == api::Node::kType) {
    const auto& value = json["metadata"]["labels"][set_.status.node_label];
    if (value.is_null()) {
      labels_.erase(patch.key.name);
    } else {
      labels_[patch.key.name] = value.get<std::string>();
    }
    return;
  }
  json_[fmt::format("{}/{}", patch.type.kind, patch.key.name)] = patch.json;
  if (patch.type == api::StatefulSet::kType) {
    if (json["spec"].contains("replicas"))
      stateful_set_->replicas = json["spec"]["replicas"].get<std::int32_t>();
    if (json.contains("metadata")) {
      stateful_set_->metadata.annotations[kTemplateAnnotation] =
          json["metadata"]["annotations"][kTemplateAnnotation].get<std::string>();
    }
  }
  if (patch.type == api::SecretObject::kType) volume_copy_ = Parse<api::SecretObject>(patch.json);
}

void World::Delete(const DeleteObject& remove) {
  ++writes;
  if (remove.at_once) {
    given_up.push_back(remove.key.name);
    terminating.clear();
    return;
  }
  if (remove.type == api::PersistentVolume::kType) volume_.reset();
  if (remove.type == api::PersistentVolumeClaim::kType) claim_.reset();
  if (remove.type == api::Service::kType) service_.reset();
  if (remove.type == api::StatefulSet::kType) stateful_set_.reset();
  if (remove.type == api::SecretObject::kType) {
    (remove.key.name == VolumeSecretName(set_.metadata.name) ? volume_copy_ : auth_).reset();
  }
  json_.erase(fmt::format("{}/{}", remove.type.kind, remove.key.name));
}

api::Json World::JsonOf(const std::string& name) const {
  const auto it = json_.find(name);
  return it == json_.end() ? api::Json() : api::Json::parse(it->second);
}

std::vector<std::string> World::ObjectNames() const {
  std::vector<std::string> names;
  names.reserve(json_.size());
  for (const auto& [name, json] : json_) names.push_back(name);
  return names;
}

std::map<std::string, std::string> World::Labels() const { return labels_; }

}  // namespace paddleop::controllers::sampleset::testing
