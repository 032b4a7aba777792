// One volume, two clients: random operations through ours and through the official client's mount,
// each compared with a plain directory through both. Metadata in SQLite and Redis, data in a
// directory and in MinIO, formatted by either.
#include <gtest/gtest.h>

#include <random>

#include "base/crypto.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "interop/file_view.h"
#include "interop/juicefs.h"
#include "volume/data/fsck.h"
#include "volume/data/gc.h"

namespace paddleop::testing {
namespace {

using volume::Volume;

struct Setup {
  friend std::ostream& operator<<(std::ostream& out, const Setup& setup) {
    return out << setup.meta << " " << setup.storage;
  }

  std::string meta;     // sqlite3 or redis
  std::string storage;  // file or minio
  bool formatted_by_us;
  std::string compression = "none";
  int trash_days = 0;
};

std::string NameOf(const ::testing::TestParamInfo<Setup>& info) {
  return info.param.meta + "_" + info.param.storage + "_" + info.param.compression +
         (info.param.formatted_by_us ? "_ours" : "_theirs");
}

class VolumeInterop : public ::testing::TestWithParam<Setup> {
 protected:
  static void SetUpTestSuite() {
    // The official client warns about a Redis that may lose data.
    auto redis = Peer::Start("redis", {"--appendonly"});
    ASSERT_OK(redis);
    redis_ = new Peer(*std::move(redis));
    auto minio = Peer::Start("minio", {"--bucket", "interop"});
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
    url_ = GetParam().meta == "redis"
               ? fmt::format("redis://127.0.0.1:{}/{}", redis_->Get("port"), ++database)
               : "sqlite3://" + dir_.File("meta.db");
    name_ = "vol-" + HexEncode(RandomBytes(4));
    setting_.name = name_;
    setting_.uuid = RandomUuid();
    setting_.storage = GetParam().storage;
    setting_.compression = GetParam().compression;
    setting_.trash_days = GetParam().trash_days;
    setting_.block_size_kib = 64;
    if (GetParam().storage == "minio") {
      setting_.bucket = minio_->Get("endpoint") + "/interop";
      setting_.access_key = minio_->Get("access_key");
      setting_.secret_key = Secret(minio_->Get("secret_key"));
    } else {
      setting_.bucket = dir_.File("blocks") + "/";
    }
    Format();
    auto opened = Volume::Open(
        ctx_, url_,
        {.session =
             volume::SessionInfo{
                 .version = "1.3.1", .host_name = "test", .mount_point = "test", .process_id = 1}},
        log_, metrics_);
    ASSERT_OK(opened);
    volume_ = *std::move(opened);
    // The first entry makes the statistics of the root. When two clients see them missing at once,
    // the official one counts what is there and then adds its own changes once more.
    ASSERT_OK(volume_->meta().Mkdir(ctx_, {}, volume::kRootIno, "first", 0755));
    Remount();
  }

  // A fresh mount has no page cache: the official client invalidates pages of files that others
  // changed only after an open was answered.
  void Remount() {
    Unmount();
    auto mounted = juicefs_->MountAt(
        url_, dir_.File("mnt"),
        {"--enable-xattr", "--attr-cache", "0", "--entry-cache", "0", "--dir-entry-cache", "0"});
    ASSERT_OK(mounted);
    mount_ = *std::move(mounted);
  }

  // The official client deletes objects in the background and forgets those that are left when it
  // ends.
  void Unmount() {
    WaitFor([&] {
      auto found = volume::data::CollectGarbage(ctx_, volume_->meta(), volume_->objects(),
                                                volume_->setting().layout(),
                                                {.min_age = std::chrono::seconds(0)});
      return found && found->leaked_objects == 0 && found->pending_slices == 0;
    });
    mount_.reset();
  }

  void Format() {
    if (GetParam().formatted_by_us) {
      ASSERT_OK(volume::FormatVolume(ctx_, url_, setting_, false, log_, metrics_));
      return;
    }
    std::vector<std::string> args = {"format",
                                     url_,
                                     name_,
                                     "--storage",
                                     setting_.storage,
                                     "--bucket",
                                     setting_.bucket,
                                     "--block-size",
                                     "64",
                                     "--compress",
                                     setting_.compression,
                                     "--trash-days",
                                     std::to_string(setting_.trash_days)};
    if (!setting_.access_key.empty()) {
      args.insert(args.end(), {"--access-key", setting_.access_key, "--secret-key",
                               setting_.secret_key.Reveal()});
    }
    ASSERT_OK(juicefs_->Run(args));
  }

  void ExpectSame(const std::map<std::string, FileFacts>& expected,
                  const std::map<std::string, FileFacts>& actual, const char* whose) {
    for (const auto& [path, facts] : expected) {
      const auto found = actual.find(path);
      ASSERT_NE(found, actual.end()) << whose << " client does not see " << path;
      if (found->second == facts) continue;
      const std::string& content = found->second.content;
      const auto at = std::ranges::mismatch(content, facts.content).in1 - content.begin();
      auto entry = volume_->meta().Resolve(ctx_, {}, volume::kRootIno, path);
      std::string records;
      if (entry) {
        const auto slices = volume_->meta().ReadSlices(ctx_, entry->ino, 0);
        for (const auto& s : *slices)
          records += fmt::format(" ({} {} {} {} {})", s.pos, s.id, s.size, s.off, s.len);
      }
      FAIL() << whose << " client, " << path << ": " << Describe(found->second) << "; expected "
             << Describe(facts) << "; contents differ from byte " << at << "; records" << records;
    }
    for (const auto& [path, facts] : actual) {
      ASSERT_TRUE(expected.contains(path)) << whose << " client still sees " << path;
    }
  }

  static inline Peer* redis_ = nullptr;
  static inline Peer* minio_ = nullptr;
  const Context ctx_ = Context::Background();
  TempDir dir_ = *TempDir::Create();
  Logger log_{LogLevel::kError};
  MetricsRegistry metrics_;
  std::optional<Juicefs> juicefs_;
  std::string url_;
  std::string name_;
  volume::Setting setting_;
  std::unique_ptr<Volume> volume_;
  std::unique_ptr<Juicefs::Mount> mount_;
};

// Draws one operation at a time; which paths exist is known from the model.
class Walk {
 public:
  explicit Walk(unsigned seed) : random_(seed) {}

  std::size_t Upto(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n)(random_);
  }
  std::string NewPath(const std::map<std::string, FileFacts>& model) {
    std::vector<std::string> directories = {""};
    for (const auto& [path, facts] : model) {
      if (facts.type == 'd' && std::ranges::count(path, '/') < 2) directories.push_back(path + "/");
    }
    return directories[Upto(directories.size() - 1)] + Name();
  }
  std::string Existing(const std::map<std::string, FileFacts>& model, char type) {
    std::vector<std::string> paths;
    for (const auto& [path, facts] : model) {
      if (facts.type == type) paths.push_back(path);
    }
    return paths.empty() ? "" : paths[Upto(paths.size() - 1)];
  }
  std::string Name() {
    static const std::vector<std::string> kNames = {"a",
                                                    "b",
                                                    "c",
                                                    "d e",
                                                    "\xe5\xbd\xb1\xe5\x83\x8f.jpg",
                                                    "f%2F",
                                                    "long-" + std::string(240, 'n')};
    return kNames[Upto(kNames.size() - 1)];
  }

  // One operation on `model` and on `view`; both must agree on success or failure.
  void Step(const std::map<std::string, FileFacts>& known, FileView& model, FileView& view,
            int step) {
    const std::string file = Existing(known, 'f'), directory = Existing(known, 'd'),
                      fresh = NewPath(known);
    const std::string data(1 + Upto(150'000), static_cast<char>('a' + step % 26));
    const std::size_t offset = Upto(200'000);
    const auto both = [&](auto operation) {
      auto expected = operation(model);
      auto actual = operation(view);
      if (expected.has_value() != actual.has_value()) {
        ADD_FAILURE() << "step " << step << ": a plain directory says "
                      << (expected ? "done" : expected.error().message()) << ", the volume says "
                      << (actual ? "done" : actual.error().message());
      }
    };
    switch (Upto(12)) {
      case 0:
        return both([&](FileView& v) { return v.Mkdir(fresh); });
      case 1:
        return both(
            [&](FileView& v) { return v.Rmdir(directory.empty() ? "missing" : directory); });
      case 2:
        return both([&](FileView& v) { return v.Unlink(file.empty() ? "missing" : file); });
      case 3: {
        const bool move_file = Upto(3) > 0 || directory.empty();
        // The official client subtracts the length of a replaced link from its directory's
        // statistics, although it never added it.
        if (known.contains(fresh) && known.at(fresh).type == 'l') return;
        const std::string from = move_file ? (file.empty() ? "missing" : file) : directory;
        return both([&](FileView& v) { return v.Rename(from, fresh); });
      }
      case 4:
        return file.empty() ? void() : both([&](FileView& v) { return v.Link(file, fresh); });
      case 5:
        return both([&](FileView& v) { return v.Symlink("some/target", fresh); });
      case 6:
        return file.empty() ? void() : both([&](FileView& v) { return v.Truncate(file, offset); });
      case 7:
        return file.empty() ? void() : both([&](FileView& v) {
          return v.Chmod(file, 0600 + static_cast<unsigned>(step % 64));
        });
      case 8:
        return file.empty() ? void() : both([&](FileView& v) {
          return v.SetXattr(file, "user.k" + std::to_string(step % 3), data.substr(0, 20));
        });
      case 9:
        return file.empty()
                   ? void()
                   : both([&](FileView& v) { return v.PunchHole(file, offset, 1 + data.size()); });
      default: {
        const std::string target = !file.empty() && Upto(1) == 0 ? file : fresh;
        if (known.contains(target) && known.at(target).type != 'f') return;
        return both([&](FileView& v) { return v.Write(target, offset / 4, data); });
      }
    }
  }

 private:
  std::mt19937 random_;
};

TEST_P(VolumeInterop, RandomOperationsThroughBothClientsAgree) {
  // INTEROP_SEED repeats a run.
  const std::string fixed = GetEnv("INTEROP_SEED");
  const auto seed =
      fixed.empty() ? std::random_device{}() : static_cast<unsigned>(std::stoul(fixed));
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  Walk walk(seed);
  ASSERT_OK(MakeDirectories(dir_.File("model")));
  auto model = MakePosixView(dir_.File("model"));
  ASSERT_OK(model->Mkdir("first"));
  auto ours = MakeVolumeView(*volume_);
  auto theirs = MakePosixView(mount_->path());
  constexpr std::int64_t kTime = 1'700'000'000;
  for (int step = 0; step < 120 && !HasFailure(); ++step) {
    // The time of a write differs between model and volume: all files get the same before a
    // comparison.
    auto known = model->Snapshot();
    ASSERT_OK(known);
    walk.Step(*known, *model, walk.Upto(1) == 0 ? *ours : *theirs, step);
    if (step % 30 != 29) continue;
    known = model->Snapshot();
    for (const auto& [path, facts] : *known) {
      if (facts.type != 'f') continue;
      ASSERT_OK(model->SetTime(path, kTime + step));
      ASSERT_OK((step % 60 == 29 ? ours : theirs)->SetTime(path, kTime + step));
    }
    const auto expected = model->Snapshot();
    const auto from_us = ours->Snapshot();
    ASSERT_OK(from_us);
    ExpectSame(*expected, *from_us, "our");
    Remount();
    const auto from_them = theirs->Snapshot();
    ASSERT_OK(from_them);
    ExpectSame(*expected, *from_them, "the official");
  }
  ASSERT_OK(volume_->meta().DrainDeletions(ctx_));
  Unmount();  // also flushes what the official client still has to say
  auto checked =
      volume::data::Fsck(ctx_, volume_->meta(), volume_->objects(), setting_.layout(), true);
  ASSERT_OK(checked);
  EXPECT_TRUE(checked->clean()) << checked->problems[0].path << ": " << checked->problems[0].detail;
  volume_.reset();
  EXPECT_OK(juicefs_->CheckClean(url_));
}

// Not with zstd: the official client 1.3.1 returns wrong bytes when it reads from the middle of a
// zstd block, also of its own (write 103358 bytes at 14155, then 86610 at 19877, blocks of 64 KiB,
// remount, read).
INSTANTIATE_TEST_SUITE_P(Setups, VolumeInterop,
                         ::testing::Values(Setup{"sqlite3", "file", true},
                                           Setup{"redis", "minio", true},
                                           Setup{"sqlite3", "minio", false, "lz4"},
                                           Setup{"redis", "file", false}),
                         NameOf);

}  // namespace
}  // namespace paddleop::testing
