#include "controllers/common/caches.h"

#include "controllers/common/runtimes.h"

namespace paddleop::controllers {
namespace {

constexpr std::string_view kSetLabelPrefix = "paddlepaddle.org/juicefs-";

Result<api::Node> DecodeNode(std::string_view json) {
  ASSIGN_OR_RETURN(auto node, api::ParseAs<api::Node>(json));
  node.metadata.annotations.clear();
  std::erase_if(node.metadata.labels,
                [](const auto& label) { return !label.first.starts_with(kSetLabelPrefix); });
  return node;
}

std::vector<std::string> SampleSetOf(const kube::RawObject& raw) {
  // Most jobs use no set; those need not be parsed twice.
  if (raw.json.find("\"sampleSetRef\"") == std::string::npos) return {};
  const auto job = api::ParseAs<api::PaddleJob>(raw.json);
  if (!job || !job->spec.sample_set_ref) return {};
  return {raw.ns + "/" + job->spec.sample_set_ref->name};
}

Result<api::Pod> DecodeRuntimePod(std::string_view json) {
  ASSIGN_OR_RETURN(auto pod, api::ParseAs<api::Pod>(json));
  pod.metadata.annotations.clear();
  return pod;
}

std::vector<std::string> SetOfDataJob(const kube::RawObject& raw) {
  const auto job = api::ParseAs<api::SampleJob>(raw.json);
  if (!job || job->spec.sample_set.empty()) return {};
  return {raw.ns + "/" + job->spec.sample_set};
}

std::vector<std::string> SetLabels(const kube::RawObject& raw) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : raw.labels) {
    if (key.starts_with(kSetLabelPrefix)) keys.push_back(key);
  }
  return keys;
}

}  // namespace

Caches::Caches(std::string ns, kube::ClusterClient& client, const Logger& log,
               MetricsRegistry& metrics, Clock& clock)
    : ns_(std::move(ns)), client_(client), log_(log), metrics_(metrics), clock_(clock) {}

template <class T>
std::unique_ptr<kube::Informer<T>> Caches::Make(std::function<Result<T>(std::string_view)> decode,
                                                std::string label_selector) {
  kube::InformerOptions options;
  options.resource = T::kType;
  options.label_selector = std::move(label_selector);
  if (T::kType.namespaced) options.ns = ns_;
  return std::make_unique<kube::Informer<T>>(std::move(options), std::move(decode), client_, log_,
                                             metrics_, clock_);
}

kube::Informer<api::PaddleJob>& Caches::paddle_jobs() {
  if (!paddle_jobs_) {
    paddle_jobs_ = Make<api::PaddleJob>(api::ParseAs<api::PaddleJob>);
    paddle_jobs_->AddIndex(kBySampleSet, SampleSetOf);
  }
  return *paddle_jobs_;
}

kube::Informer<api::SampleSet>& Caches::sample_sets() {
  if (!sample_sets_) sample_sets_ = Make<api::SampleSet>(api::ParseAs<api::SampleSet>);
  return *sample_sets_;
}

kube::Informer<api::SampleJob>& Caches::sample_jobs() {
  if (!sample_jobs_) {
    sample_jobs_ = Make<api::SampleJob>(api::ParseAs<api::SampleJob>);
    sample_jobs_->AddIndex(kBySampleSet, SetOfDataJob);
    sample_jobs_->AddIndex(kByOwner, kube::ControllerUid);
  }
  return *sample_jobs_;
}

kube::Informer<api::Pod>& Caches::runtime_pods() {
  if (!runtime_pods_) {
    runtime_pods_ = Make<api::Pod>(DecodeRuntimePod, kSetUidLabel);
    runtime_pods_->AddIndex(kBySetUid, kube::LabelValue(kSetUidLabel));
  }
  return *runtime_pods_;
}

kube::Informer<api::Node>& Caches::nodes() {
  if (!nodes_) {
    nodes_ = Make<api::Node>(DecodeNode);
    nodes_->AddIndex(kBySetLabel, SetLabels);
  }
  return *nodes_;
}

void Caches::AddTo(kube::Manager& manager) const {
  if (paddle_jobs_) manager.Add(*paddle_jobs_);
  if (sample_sets_) manager.Add(*sample_sets_);
  if (sample_jobs_) manager.Add(*sample_jobs_);
  if (runtime_pods_) manager.Add(*runtime_pods_);
  if (nodes_) manager.Add(*nodes_);
}

}  // namespace paddleop::controllers
