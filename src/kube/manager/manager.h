#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "kube/cache/informer.h"
#include "kube/manager/controller.h"
#include "kube/manager/events.h"
#include "kube/manager/health.h"
#include "kube/manager/leader_election.h"

namespace paddleop::kube {

struct ManagerOptions {
  // "host:port", ":port" (all addresses), or "0" for none, as the reference's flags have it.
  std::string metrics_address = ":8080";
  std::string health_address = ":8081";
  std::optional<LeaderElectionOptions> leader_election;  // unset: always lead
  std::chrono::milliseconds sync_timeout{120'000};       // for the first lists of all informers
  std::chrono::milliseconds release_timeout{5'000};
};

// Runs controllers: starts things in the order they need each other, and stops them in reverse.
//
//   servers, informers, wait for their first lists, leadership, services, controllers
//
// Everything is added before Run(), from one thread. What is added is borrowed, and lives until
// Run() has returned.
class Manager {
 public:
  Manager(ManagerOptions options, ClusterClient& client, const Logger& log,
          MetricsRegistry& metrics, Clock& clock = Clock::System());
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  template <class T>
  void Add(const Informer<T>& informer) {
    informers_.push_back(informer.core());
  }
  void Add(Controller& controller) { controllers_.push_back(&controller); }
  // Stopped, its queue sent, after the controllers.
  void Add(EventRecorder& events) { recorders_.push_back(&events); }
  // A thread that runs while we lead, until its context stops.
  void AddService(std::string name, std::function<void(const Context& ctx)> run);
  // A named condition of /readyz.
  void AddReadyCheck(std::string name, std::function<Result<void>()> check);

  // Runs until the context stops: success, everything stopped and the lease given up. kUnavailable
  // or kConflict if leadership was lost: everything is stopped, and the process should end, because
  // another one is at work. Other errors say what could not be started.
  Result<void> Run(const Context& ctx);

  bool is_leader() const;
  // The ports that were bound; 0 before that, and if not served.
  std::uint16_t metrics_port() const;
  std::uint16_t health_port() const;

 private:
  struct Service {
    std::string name;
    std::function<void(const Context&)> run;
  };

  Result<void> StartServers();
  Result<void> StartInformers(const Context& ctx);
  Result<void> RunAsLeader(const Context& ctx);
  void StopAll();

  const ManagerOptions options_;
  const Logger& log_;
  MetricsRegistry& metrics_;
  MetricsRegistry::Gauge& leading_;
  std::vector<std::shared_ptr<InformerCore>> informers_;
  std::vector<Controller*> controllers_;
  std::vector<EventRecorder*> recorders_;
  std::vector<Service> services_;
  std::unique_ptr<HealthChecks> health_;
  std::unique_ptr<LeaderElector> elector_;
  std::unique_ptr<net::HttpServer> metrics_server_;
  std::unique_ptr<net::HttpServer> health_server_;
  std::atomic<bool> working_ = false;
  std::atomic<std::uint16_t> metrics_port_ = 0;
  std::atomic<std::uint16_t> health_port_ = 0;
  std::vector<std::jthread> service_threads_;
};

}  // namespace paddleop::kube
