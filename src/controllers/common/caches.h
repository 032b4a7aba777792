#pragma once

#include <memory>
#include <string>

#include "api/batch/paddle_job.h"
#include "api/batch/sample_job.h"
#include "api/batch/sample_set.h"
#include "api/core/objects.h"
#include "api/core/pod.h"
#include "kube/cache/informer.h"
#include "kube/manager/manager.h"

namespace paddleop::controllers {

// What several controllers of one process watch, watched once. An informer is made when first asked
// for, so a process with one controller watches only what that one needs.
//
// Not thread-safe until everything is set up; the informers themselves are.
class Caches {
 public:
  // `ns` is empty for the whole cluster.
  Caches(std::string ns, kube::ClusterClient& client, const Logger& log, MetricsRegistry& metrics,
         Clock& clock = Clock::System());

  kube::Informer<api::PaddleJob>& paddle_jobs();
  kube::Informer<api::SampleSet>& sample_sets();
  kube::Informer<api::SampleJob>& sample_jobs();
  // Pods of Cache Runtime Servers.
  kube::Informer<api::Pod>& runtime_pods();
  // With labels of ours only; of the rest nobody here needs anything.
  kube::Informer<api::Node>& nodes();

  // After the controllers have asked for what they need.
  void AddTo(kube::Manager& manager) const;

  const std::string& ns() const { return ns_; }

  // Index of paddle_jobs() and sample_jobs() by the SampleSet they use ("namespace/name"), of
  // sample_jobs() by the schedule that made them (its UID), of nodes() by the label keys of sets
  // that they carry, and of runtime_pods() by the UID of their set.
  static constexpr char kBySampleSet[] = "sample-set";
  static constexpr char kByOwner[] = "owner";
  static constexpr char kBySetLabel[] = "set-label";
  static constexpr char kBySetUid[] = "set-uid";

 private:
  template <class T>
  std::unique_ptr<kube::Informer<T>> Make(std::function<Result<T>(std::string_view)> decode,
                                          std::string label_selector = "");

  const std::string ns_;
  kube::ClusterClient& client_;
  const Logger& log_;
  MetricsRegistry& metrics_;
  Clock& clock_;
  std::unique_ptr<kube::Informer<api::PaddleJob>> paddle_jobs_;
  std::unique_ptr<kube::Informer<api::SampleSet>> sample_sets_;
  std::unique_ptr<kube::Informer<api::SampleJob>> sample_jobs_;
  std::unique_ptr<kube::Informer<api::Pod>> runtime_pods_;
  std::unique_ptr<kube::Informer<api::Node>> nodes_;
};

}  // namespace paddleop::controllers
