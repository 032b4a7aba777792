// `samplefs sync` and `samplefs rmr` as a user runs them, on Redis and MinIO, judged by the
// official client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "base/crypto.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "interop/juicefs.h"
#include "volume/object/open_store.h"

namespace paddleop::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Files = std::map<std::string, std::string>;

const Context kCtx = Context::Background();

Files MakeFiles(int count, unsigned seed) {
  std::minstd_rand random(seed);
  Files files;
  for (int i = 0; i < count; ++i) {
    std::string content(random() % 20'000, 0);
    for (char& c : content) c = static_cast<char>(random());
    files[fmt::format("train/n{:02}/{:05}.jpg", i % 9, i)] = std::move(content);
  }
  return files;
}

class ImportInterop : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto redis = Peer::Start("redis", {"--appendonly"});
    ASSERT_OK(redis);
    redis_ = new Peer(*std::move(redis));
    auto minio = Peer::Start("minio", {"--bucket", "source", "--bucket", "blocks"});
    ASSERT_OK(minio);
    minio_ = new Peer(*std::move(minio));
  }
  static void TearDownTestSuite() {
    delete redis_;
    delete minio_;
  }

  void SetUp() override {
    ASSERT_NE(redis_, nullptr);
    ASSERT_NE(minio_, nullptr);
    juicefs_.emplace(*Juicefs::Find(dir_.path()));
    static int database = 0;
    url_ = fmt::format("redis://127.0.0.1:{}/{}", redis_->Get("port"), ++database);
    const ProcessResult made =
        Samplefs({"format", url_, "vol-" + HexEncode(RandomBytes(4)), "--storage", "minio",
                  "--bucket", minio_->Get("endpoint") + "/blocks", "--trash-days", "0"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    source_ = fmt::format("minio://{}/source/{}",
                          minio_->Get("endpoint").substr(std::string("http://").size()),
                          HexEncode(RandomBytes(4)));
  }

  std::vector<std::string> Environment() const {
    return {"ACCESS_KEY=" + minio_->Get("access_key"), "SECRET_KEY=" + minio_->Get("secret_key"),
            "SAMPLEFS_STATE_DIR=" + dir_.File("state"), "JFS_GC_SKIPPEDTIME=0"};
  }
  ProcessResult Samplefs(std::vector<std::string> args, const std::string& kill_after = "") {
    std::vector<std::string> argv;
    if (!kill_after.empty()) argv = {"timeout", "-s", "KILL", kill_after};
    argv.push_back(BinDir() + "/samplefs");
    argv.insert(argv.end(), args.begin(), args.end());
    auto result = RunProcess(argv, Environment(), std::chrono::seconds(200));
    EXPECT_OK(result);
    return result ? *result : ProcessResult{};
  }
  // The last of the JSON objects that a command printed.
  static nlohmann::json Last(const std::string& out) {
    const std::size_t end = out.find_last_not_of('\n');
    const std::size_t begin = out.rfind('\n', end) + 1;
    return nlohmann::json::parse(out.substr(begin, end + 1 - begin), nullptr, false);
  }
  nlohmann::json Sync(const std::string& source, std::vector<std::string> more = {},
                      int expected = 0) {
    std::vector<std::string> args = {"sync", url_, source, "--json"};
    args.insert(args.end(), more.begin(), more.end());
    const ProcessResult done = Samplefs(args);
    EXPECT_EQ(done.exit_code, expected) << done.out << done.err;
    return Last(done.out);
  }

  void PutSource(const Files& files) {
    auto uri = volume::object::ParseStorageUri(source_);
    ASSERT_OK(uri);
    uri->config.access_key = minio_->Get("access_key");
    uri->config.secret_key = Secret(minio_->Get("secret_key"));
    auto store = volume::object::OpenStore(uri->config);
    ASSERT_OK(store);
    for (const auto& [name, content] : files) {
      ASSERT_OK(volume::object::PutString(**store, kCtx, uri->prefix + "/" + name, content));
    }
  }
  void WriteDirectory(const std::string& path, const Files& files) {
    for (const auto& [name, content] : files) {
      const std::string file = path + "/" + name;
      ASSERT_OK(MakeDirectories(file.substr(0, file.rfind('/'))));
      ASSERT_OK(WriteFileAtomic(file, content));
    }
  }
  // Compares a mounted tree with what it should be.
  static void ExpectSame(const std::string& path, const Files& files) {
    std::size_t found = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = entry.path().string().substr(path.size() + 1);
      // Files of the official client's own in the root of a mount.
      if (name == ".accesslog" || name == ".stats" || name == ".config") continue;
      const auto expected = files.find(name);
      if (expected == files.end()) {
        ADD_FAILURE() << "too many: " << name;
        continue;
      }
      ++found;
      auto content = ReadFile(entry.path().string());
      ASSERT_OK(content);
      EXPECT_TRUE(*content == expected->second) << name;
    }
    EXPECT_EQ(found, files.size());
  }
  void ExpectClean() {
    EXPECT_OK(juicefs_->CheckClean(url_));
    const ProcessResult checked = Samplefs({"fsck", url_, "--json"});
    EXPECT_EQ(checked.exit_code, 0) << checked.out;
    const nlohmann::json garbage = Last(Samplefs({"gc", url_, "--json"}).out);
    EXPECT_EQ(garbage["leakedObjects"], 0) << garbage;
    EXPECT_EQ(garbage["pendingSlices"], 0) << garbage;
    EXPECT_EQ(garbage["pendingFiles"], 0) << garbage;
    objects_ = garbage["objects"].is_number() ? garbage["objects"].get<std::uint64_t>() : 0;
  }
  std::int64_t RedisCommands() {
    const ProcessResult info = *RunProcess(
        {"redis-cli", "-p", redis_->Get("port"), "--no-raw", "info", "commandstats"}, {});
    // Each line: cmdstat_get:calls=21,usec=175,...
    std::int64_t calls = 0;
    for (std::size_t at = info.out.find("calls="); at != std::string::npos;
         at = info.out.find("calls=", at + 1)) {
      calls += std::atoll(info.out.c_str() + at + 6);
    }
    return calls;
  }

  static Peer* redis_;
  static Peer* minio_;
  TempDir dir_ = *TempDir::Create();
  std::optional<Juicefs> juicefs_;
  std::string url_;
  std::string source_;
  std::uint64_t objects_ = 0;
};
Peer* ImportInterop::redis_ = nullptr;
Peer* ImportInterop::minio_ = nullptr;

TEST_F(ImportInterop, TheOfficialClientReadsAndRemovesWhatWeImported) {
  Files files = MakeFiles(400, 1);
  files["big"] = std::string((9 << 20) + 77, 'b');
  files["empty"] = "";
  files["a name with spaces/\xe5\x9b\xbe"] = "x";
  PutSource(files);
  const std::int64_t before = RedisCommands();
  const nlohmann::json done = Sync(source_);
  const std::int64_t commands = RedisCommands() - before;
  EXPECT_EQ(done["files"]["copied"], files.size()) << done;
  EXPECT_EQ(done["state"], "done");
  // Directories and the opening of the volume are the rest.
  EXPECT_LE(commands, static_cast<std::int64_t>(4 * files.size() + 200));
  EXPECT_LE(done["uploads"]["objects"], 12) << done;
  {
    auto mount = juicefs_->MountAt(url_, dir_.File("mnt"));
    ASSERT_OK(mount);
    ExpectSame((*mount)->path(), files);
  }
  ExpectClean();

  // Nothing is read again.
  const nlohmann::json again = Sync(source_);
  EXPECT_EQ(again["files"]["skipped"], files.size()) << again;
  EXPECT_EQ(again["bytes"]["read"], 0) << again;

  {
    auto mount = juicefs_->MountAt(url_, dir_.File("mnt"));
    ASSERT_OK(mount);
    std::filesystem::remove_all((*mount)->path() + "/train/n01");
    std::filesystem::remove((*mount)->path() + "/big");
    std::erase_if(files, [](const auto& file) {
      return file.first.starts_with("train/n01/") || file.first == "big";
    });
    ExpectSame((*mount)->path(), files);
  }
  ASSERT_EQ(Samplefs({"gc", url_, "--delete"}).exit_code, 0);
  {
    auto mount = juicefs_->MountAt(url_, dir_.File("mnt"));
    ASSERT_OK(mount);
    ExpectSame((*mount)->path(), files);
  }
  ExpectClean();

  const ProcessResult removed = Samplefs({"rmr", url_, "train", "--skip-trash", "--json"});
  EXPECT_EQ(removed.exit_code, 0) << removed.err;
  ExpectClean();
  EXPECT_LE(objects_, 1u);
}

TEST_F(ImportInterop, KilledAtAnyMomentItGoesOn) {
  const Files files = MakeFiles(1500, 2);
  WriteDirectory(dir_.File("from"), files);
  std::random_device device;
  const unsigned seed = device();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::minstd_rand random(seed);
  // So slow that an import takes longer than any of the processes lives.
  std::size_t bytes = 0;
  for (const auto& [name, content] : files) bytes += content.size();
  const std::string limit = std::to_string(std::max<std::size_t>(1, bytes * 8 / 3'000'000));
  int killed = 0;
  for (int i = 0; i < 8; ++i) {
    const std::string after =
        fmt::format("{:.2f}", 0.15 + static_cast<double>(random() % 150) / 100);
    const ProcessResult run =
        Samplefs({"sync", url_, dir_.File("from"), "--json", "--bwlimit", limit}, after);
    if (run.exit_code != 0) ++killed;
  }
  const nlohmann::json done = Sync(dir_.File("from"));
  EXPECT_EQ(done["files"]["done"], files.size()) << done;
  EXPECT_EQ(done["files"]["failed"], 0) << done;
  EXPECT_GE(killed, 1);
  {
    auto mount = juicefs_->MountAt(url_, dir_.File("mnt"));
    ASSERT_OK(mount);
    ExpectSame((*mount)->path(), files);
  }
  ExpectClean();
}

TEST_F(ImportInterop, ProcessesThatShareAnImportCopyEachFileOnce) {
  const Files files = MakeFiles(1200, 3);
  WriteDirectory(dir_.File("from"), files);
  std::vector<std::future<nlohmann::json>> parts;
  for (const char* part : {"0/3", "1/3", "2/3"}) {
    parts.push_back(std::async(std::launch::async, [this, part] {
      return Sync(dir_.File("from"), {"--part", part, "--to", "/set"});
    }));
  }
  std::uint64_t copied = 0;
  for (auto& part : parts) copied += part.get()["files"]["copied"].get<std::uint64_t>();
  EXPECT_EQ(copied, files.size());
  auto mount = juicefs_->MountAt(url_, dir_.File("mnt"));
  ASSERT_OK(mount);
  ExpectSame((*mount)->path() + "/set", files);
  mount->reset();
  ExpectClean();
}

TEST_F(ImportInterop, WhatIsWrongWithASourceIsSaidWithoutSecrets) {
  const std::string host = minio_->Get("endpoint").substr(std::string("http://").size());
  ProcessResult wrong = Samplefs({"sync", url_, "minio://peer:notthesecret@" + host + "/source/x"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("/source/x"));
  EXPECT_THAT(wrong.err, Not(HasSubstr("notthesecret")));
  wrong = Samplefs({"sync", url_, "minio://" + host + "/no-such-bucket/"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("no-such-bucket"));
  wrong = Samplefs({"sync", url_, "minio://" + host + "/source/nothing-is-here"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("nothing-is-here"));
  EXPECT_EQ(Samplefs({"sync", url_, dir_.File("absent")}).exit_code, 1);
  EXPECT_EQ(Samplefs({"sync", url_, dir_.path(), "--part", "5/2"}).exit_code, 2);
  EXPECT_EQ(Samplefs({"sync", url_}).exit_code, 2);
  EXPECT_EQ(Samplefs({"sync", url_, "gopher://x/y"}).exit_code, 1);
}

TEST_F(ImportInterop, AStoreThatIsAwayForAWhileIsWaitedFor) {
  const Files files = MakeFiles(600, 4);
  PutSource(files);
  auto running = std::async(std::launch::async, [this] { return Sync(source_); });
  ASSERT_OK(minio_->Command("kill minio"));
  ASSERT_OK(minio_->Command("start minio"));
  const nlohmann::json done = running.get();
  EXPECT_EQ(done["files"]["copied"], files.size()) << done;
  ExpectClean();
}

TEST_F(ImportInterop, FailedFilesAreListedAndTheRestIsThere) {
  Files files = MakeFiles(20, 5);
  files["clash"] = "a file";
  files["clash/inside"] =
      "and a directory";  // MinIO on a disk would refuse: a redis source does not
  auto uri = volume::object::ParseStorageUri(
      fmt::format("redis://127.0.0.1:{}/15/in", redis_->Get("port")));
  ASSERT_OK(uri);
  auto store = volume::object::OpenStore(uri->config);
  ASSERT_OK(store);
  for (const auto& [name, content] : files) {
    ASSERT_OK(volume::object::PutString(**store, kCtx, "in/" + name, content));
  }
  const std::string report = dir_.File("report.json");
  const nlohmann::json done =
      Sync(fmt::format("redis://127.0.0.1:{}/15/in", redis_->Get("port")), {"--report", report}, 3);
  EXPECT_EQ(done["state"], "partly") << done;
  EXPECT_EQ(done["files"]["failed"], 1) << done;
  auto text = ReadFile(report);
  ASSERT_OK(text);
  EXPECT_THAT(*text, HasSubstr("clash/inside"));
  ExpectClean();
}

}  // namespace
}  // namespace paddleop::testing
