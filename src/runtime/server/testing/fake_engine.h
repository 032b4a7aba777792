// An engine without a volume: jobs do what the test says.
#pragma once

#include <unistd.h>

#include <functional>
#include <string>

#include "base/mutex.h"
#include "runtime/server/engine.h"

namespace paddleop::runtime::testing {

class FakeEngine : public Engine, public JobRunner {
 public:
  using Work = std::function<Result<std::string>(const Context&, const JobRequest&, JobReporter&)>;

  FakeEngine(std::string state_dir, Work work)
      : state_dir_(std::move(state_dir)), work_(std::move(work)) {}

  std::string state_dir() const override { return state_dir_; }
  Result<void> Start(const Context&, PeerDirectory&) override { return {}; }
  JobRunner& parts() override { return *this; }
  std::uint32_t Width(const JobRequest& request, std::uint32_t partitions) const override {
    return request.kind == JobKind::kRmr ? 1 : partitions;
  }
  void Describe(const Context&, CacheInfo& info) override { info.volume = "fake"; }
  std::optional<net::ServerResponse> Serve(const Context&, const net::ServerRequest&,
                                           bool) override {
    return std::nullopt;
  }
  bool Intact() override { return ::access(state_dir_.c_str(), F_OK) == 0; }
  void JobEnded() override {}
  Result<void> Purge(const Context&) override { return {}; }
  std::string socket_path() const override { return {}; }

  Result<std::string> Run(const Context& ctx, const JobRequest& request,
                          JobReporter& report) override {
    return work_(ctx, request, report);
  }

 private:
  const std::string state_dir_;
  const Work work_;
};

}  // namespace paddleop::runtime::testing
