// An import over a slow link: `samplefs sync` in a network namespace, behind 50 Mbps (tc TBF).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "base/bytes.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "support/peer.h"
#include "volume/object/open_store.h"

namespace paddleop::testing {
namespace {

constexpr double kLinkBytesPerSecond = 50e6 / 8;
constexpr std::size_t kFileSize = 35'000;
constexpr int kFiles = 1500;  // more than eight seconds of the link
constexpr int kAttempts = 3;  // for machines that stop for a while

const Context kCtx = Context::Background();

Result<void> RunWell(const std::vector<std::string>& argv) {
  ASSIGN_OR_RETURN(const ProcessResult done, RunProcess(argv));
  if (done.exit_code == 0) return {};
  return Fail(Code::kUnavailable, "{}: {}", argv.back(), done.err);
}

// A namespace with one link to ours, on which what it receives is held to the rate.
class SlowLink {
 public:
  static Result<std::unique_ptr<SlowLink>> Make() {
    std::unique_ptr<SlowLink> link(new SlowLink());
    RETURN_IF_ERROR(RunWell({"ip", "netns", "add", link->name_}));
    link->made_ = true;
    RETURN_IF_ERROR(RunWell({"ip", "link", "add", link->here_, "type", "veth", "peer", "name",
                             "eth0", "netns", link->name_}));
    RETURN_IF_ERROR(RunWell({"ip", "addr", "add", link->address_ + "/30", "dev", link->here_}));
    RETURN_IF_ERROR(RunWell({"ip", "link", "set", link->here_, "up"}));
    RETURN_IF_ERROR(
        RunWell({"ip", "-n", link->name_, "addr", "add", link->far_ + "/30", "dev", "eth0"}));
    RETURN_IF_ERROR(RunWell({"ip", "-n", link->name_, "link", "set", "eth0", "up"}));
    RETURN_IF_ERROR(RunWell({"tc", "qdisc", "add", "dev", link->here_, "root", "tbf", "rate",
                             "50mbit", "burst", "32kb", "latency", "400ms"}));
    return link;
  }
  ~SlowLink() {
    if (!made_) return;
    EXPECT_OK(RunWell({"ip", "netns", "del", name_}));  // the link goes with it
  }

  const std::string& name() const { return name_; }
  const std::string& address() const { return address_; }
  std::uint64_t SentBytes() const {
    auto text = ReadFile("/sys/class/net/" + here_ + "/statistics/tx_bytes");
    return text ? std::strtoull(text->c_str(), nullptr, 10) : 0;
  }

 private:
  SlowLink() = default;

  const std::string name_ = fmt::format("sfs-link-{}", ::getpid());
  const std::string here_ = fmt::format("sfs{}", ::getpid());
  const std::string net_ = fmt::format("198.18.{}", ::getpid() % 256);
  const std::string address_ = net_ + ".1";
  const std::string far_ = net_ + ".2";
  bool made_ = false;
};

class ImportOverALink : public ::testing::Test {
 protected:
  void SetUp() override {
    auto minio = Peer::Start("minio", {"--bucket", "source", "--any-address"});
    ASSERT_OK(minio);
    minio_.emplace(*std::move(minio));
    auto link = SlowLink::Make();
    ASSERT_OK(link);
    link_ = *std::move(link);
    const std::string endpoint = minio_->Get("endpoint");
    port_ = endpoint.substr(endpoint.rfind(':') + 1);
    PutSource();
  }

  void PutSource() {
    auto uri = volume::object::ParseStorageUri("minio://127.0.0.1:" + port_ + "/source/set");
    ASSERT_OK(uri);
    uri->config.access_key = minio_->Get("access_key");
    uri->config.secret_key = Secret(minio_->Get("secret_key"));
    auto store = volume::object::OpenStore(uri->config);
    ASSERT_OK(store);
    const std::string content(kFileSize, 'x');
    std::vector<std::future<Result<void>>> puts;
    for (int i = 0; i < kFiles; ++i) {
      auto done = std::make_shared<std::promise<Result<void>>>();
      puts.push_back(done->get_future());
      (*store)->StartPut(kCtx, fmt::format("set/{:05}.jpg", i), AsBytes(content), {},
                         [done](Result<void> result) { done->set_value(std::move(result)); });
      if (puts.size() >= 16) {
        ASSERT_OK(puts.front().get());
        puts.erase(puts.begin());
      }
    }
    for (auto& put : puts) ASSERT_OK(put.get());
  }

  // Imports everything, and tells which share of the link was used between the first twentieth and
  // the last: starting a process is not the link's business.
  double UsedShare(int attempt) {
    const std::string volume = dir_.File("volume" + std::to_string(attempt));
    const std::string url = "sqlite3://" + volume + ".db";
    EXPECT_OK(RunWell({BinDir() + "/samplefs", "format", url, "slow", "--bucket", volume + "/"}));
    const std::uint64_t start = link_->SentBytes();
    const std::vector<std::string> argv = {
        "ip",
        "netns",
        "exec",
        link_->name(),
        BinDir() + "/samplefs",
        "sync",
        url,
        fmt::format("minio://{}:{}/source/set", link_->address(), port_)};
    auto import = std::async(std::launch::async, [&] {
      return RunProcess(
          argv,
          {"ACCESS_KEY=" + minio_->Get("access_key"), "SECRET_KEY=" + minio_->Get("secret_key"),
           "SAMPLEFS_STATE_DIR=" + dir_.File("state"), "NO_PROXY=*"},
          std::chrono::seconds(100));
    });
    constexpr std::uint64_t kTotal = kFileSize * kFiles;
    using Clock = std::chrono::steady_clock;
    std::optional<std::pair<Clock::time_point, std::uint64_t>> from, to;
    while (import.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready) {
      const std::uint64_t sent = link_->SentBytes() - start;
      if (!from && sent >= kTotal / 20) from.emplace(Clock::now(), sent);
      if (!to && sent >= kTotal / 20 * 19) to.emplace(Clock::now(), sent);
    }
    auto done = import.get();
    EXPECT_OK(done);
    if (!done) return 0;
    EXPECT_EQ(done->exit_code, 0) << done->out << done->err;
    // Nothing was sent for nothing: names and headers are less than a tenth.
    EXPECT_LT(link_->SentBytes() - start, kTotal * 11 / 10);
    if (!from || !to) return 0;
    const std::chrono::duration<double> took = to->first - from->first;
    return static_cast<double>(to->second - from->second) / took.count() / kLinkBytesPerSecond;
  }

  TempDir dir_ = *TempDir::Create();
  std::optional<Peer> minio_;
  std::unique_ptr<SlowLink> link_;
  std::string port_;
};

TEST_F(ImportOverALink, SmallFilesFillFiftyMegabits) {
  double best = 0;
  for (int attempt = 1; attempt <= kAttempts && best < 0.9; ++attempt) {
    best = std::max(best, UsedShare(attempt));
    std::printf("attempt %d: %.1f %% of the link\n", attempt, best * 100);
  }
  EXPECT_GE(best, 0.9);
}

}  // namespace
}  // namespace paddleop::testing
