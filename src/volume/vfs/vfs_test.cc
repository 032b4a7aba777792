#include "volume/vfs/vfs.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/posix.h"
#include "base/testing/matchers.h"
#include "volume/cache/memory_cache.h"
#include "volume/object/testing/faulty_store.h"
#include "volume/object/testing/mem_object.h"

namespace paddleop::volume {
namespace {

using namespace std::chrono_literals;
using object::testing::Fault;
using object::testing::FaultyObjectStore;
using object::testing::MemObjectStore;
using object::testing::Op;

const Context kCtx = Context::Background().WithTimeout(std::chrono::minutes(2));
constexpr std::uint32_t kBlock = 64 << 10;

template <class T>
Result<void> Outcome(const Result<T>& result) {
  if (!result) return std::unexpected(result.error());
  return {};
}

// One client of a volume whose metadata is a SQLite file and whose objects are in memory.
struct Client {
  Client(const std::string& url, object::ObjectStore& objects, std::uint32_t block_size = kBlock)
      : log(LogLevel::kOff) {
    meta = *OpenMetaStore(kCtx, url, {.log = &log});
    cache = MakeMemoryCache(8 << 20);
    blocks = std::make_unique<BlockStore>(BlockStoreOptions{.layout = {.block_size = block_size},
                                                            .max_downloads = 4,
                                                            .max_uploads = 4,
                                                            .buffer_bytes = 4 << 20},
                                          objects, cache.get(), log);
  }
  void Start(VfsOptions options) {
    ASSERT_OK(meta->Load(kCtx));
    meta->SetSliceDeleter(
        [this](const Context& ctx, SliceKey slice) { return blocks->DeleteSlice(ctx, slice); });
    ASSERT_OK(meta->OpenSession(
        kCtx, {.version = "1.3.1", .host_name = "test", .mount_point = "test", .process_id = 1}));
    vfs = std::make_unique<Vfs>(*meta, *blocks, log, options);
  }
  ~Client() {
    vfs.reset();
    meta.reset();
  }

  Logger log;
  std::unique_ptr<MetaStore> meta;
  std::unique_ptr<CacheStore> cache;
  std::unique_ptr<BlockStore> blocks;
  std::unique_ptr<Vfs> vfs;
};

class VfsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    url_ = "sqlite3://" + dir_.File("volume.db");
    Setting setting;
    setting.name = "test";
    setting.uuid = RandomUuid();
    setting.bucket = dir_.path() + "/";
    setting.block_size_kib = kBlock >> 10;
    setting.trash_days = 0;
    client_ = std::make_unique<Client>(url_, objects_);
    ASSERT_OK(client_->meta->Format(kCtx, setting, false));
    client_->Start({});
  }

  Vfs& vfs() { return *client_->vfs; }

  OpenedFile MustCreate(const std::string& name, OpenFlags flags = {.read = true, .write = true}) {
    auto opened = vfs().Create(kCtx, {}, kRootIno, name, 0644, flags, false);
    EXPECT_OK(opened);
    return *opened;
  }

  static std::string ReadAll(Vfs& vfs, Handle handle) {
    std::string out, buffer(100'000, '\0');
    for (;;) {
      auto n = vfs.Read(kCtx, handle, out.size(), std::as_writable_bytes(std::span(buffer)));
      EXPECT_OK(n);
      if (!n || *n == 0) return out;
      out.append(buffer, 0, *n);
    }
  }

  TempDir dir_ = *TempDir::Create();
  std::string url_;
  FaultyObjectStore objects_{std::make_unique<MemObjectStore>()};
  std::unique_ptr<Client> client_;
};

TEST_F(VfsTest, ReadsWhatWasWrittenBeforeAndAfterClosing) {
  const auto file = MustCreate("a");
  const std::string content(3 * kBlock + 17, 'x');
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes(content)));
  EXPECT_EQ(ReadAll(vfs(), file.handle), content);
  ASSERT_OK(vfs().Release(kCtx, file.handle));
  auto again = vfs().Open(kCtx, {}, file.entry.ino, {.read = true});
  ASSERT_OK(again);
  EXPECT_EQ(again->entry.attr.length, content.size());
  EXPECT_EQ(ReadAll(vfs(), again->handle), content);
  EXPECT_CODE(vfs().Write(kCtx, again->handle, 0, AsBytes("x")), Code::kInvalid);
  ASSERT_OK(vfs().Release(kCtx, again->handle));
  EXPECT_CODE(vfs().Release(kCtx, again->handle), Code::kInvalid);
}

TEST_F(VfsTest, HolesAreZerosAndTruncationForgets) {
  const auto file = MustCreate("sparse");
  ASSERT_OK(vfs().Write(kCtx, file.handle, 2 * kBlock, AsBytes("end")));
  EXPECT_EQ(vfs().GetAttr(kCtx, file.entry.ino)->length, 2 * kBlock + 3)
      << "not yet committed, but ours";
  EXPECT_EQ(ReadAll(vfs(), file.handle), std::string(2 * kBlock, '\0') + "end");
  ASSERT_OK(vfs().SetAttr(kCtx, {}, file.entry.ino, {.length = 2 * kBlock + 1}));
  ASSERT_OK(vfs().SetAttr(kCtx, {}, file.entry.ino, {.length = 2 * kBlock + 3}));
  EXPECT_EQ(ReadAll(vfs(), file.handle),
            std::string(2 * kBlock, '\0') + "e" + std::string(2, '\0'));
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, AnotherClientSeesAFileOnceItIsClosed) {
  Client other(url_, objects_);
  other.Start({});
  const auto file = MustCreate("shared");
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("one")));
  ASSERT_OK(vfs().Release(kCtx, file.handle));
  auto theirs = other.vfs->Open(kCtx, {}, file.entry.ino, {.read = true, .write = true});
  ASSERT_OK(theirs);
  EXPECT_EQ(ReadAll(*other.vfs, theirs->handle), "one");
  ASSERT_OK(other.vfs->Write(kCtx, theirs->handle, 0, AsBytes("two")));
  ASSERT_OK(other.vfs->Release(kCtx, theirs->handle));
  auto ours = vfs().Open(kCtx, {}, file.entry.ino, {.read = true});
  ASSERT_OK(ours);
  EXPECT_EQ(ReadAll(vfs(), ours->handle), "two");
  ASSERT_OK(vfs().Release(kCtx, ours->handle));
}

TEST_F(VfsTest, AnUnlinkedFileLivesUntilItsLastHandleCloses) {
  const auto file = MustCreate("gone");
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("still here")));
  ASSERT_OK(vfs().Flush(kCtx, file.handle));
  ASSERT_OK(vfs().meta().Unlink(kCtx, {}, kRootIno, "gone"));
  EXPECT_EQ(ReadAll(vfs(), file.handle), "still here");
  ASSERT_OK(vfs().Release(kCtx, file.handle));
  EXPECT_CODE(vfs().GetAttr(kCtx, file.entry.ino), Code::kNotFound);
  ASSERT_OK(vfs().meta().DrainDeletions(kCtx));
  auto left = object::ListEntries(objects_, kCtx, {.prefix = "chunks/"});
  ASSERT_OK(left);
  EXPECT_TRUE(left->empty()) << "the data goes with the last handle";
}

TEST_F(VfsTest, AppendersOfOneProcessDoNotOverwriteEachOther) {
  const auto file = MustCreate("log", {.read = true, .write = true, .append = true});
  std::vector<std::jthread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&, i] {
      const std::string line(100, static_cast<char>('a' + i));
      for (int n = 0; n < 50; ++n) EXPECT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes(line)));
    });
  }
  writers.clear();
  const std::string all = ReadAll(vfs(), file.handle);
  ASSERT_EQ(all.size(), 4u * 50 * 100);
  for (std::size_t i = 0; i < all.size(); i += 100) {
    EXPECT_EQ(all.substr(i, 100), std::string(100, all[i])) << "a line is torn";
  }
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, ALostWriteIsReportedWhenTheFileIsClosed) {
  const auto file = MustCreate("bad");
  objects_.InjectRandomly(Op::kPut, {.kind = Fault::Kind::kUnavailable}, 1.0);
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("data")));
  EXPECT_CODE(vfs().Release(kCtx, file.handle), Code::kUnavailable);
  EXPECT_EQ(vfs().GetAttr(kCtx, file.entry.ino)->length, 0u) << "nothing half-written is visible";
}

TEST_F(VfsTest, AChangeOfTheModeDoesNotHideWhatIsBeingWritten) {
  const auto file = MustCreate("a");
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes(std::string(100, 'x'))));
  const auto changed = vfs().SetAttr(kCtx, {}, file.entry.ino, {.mode = 0600});
  ASSERT_OK(changed);
  // The kernel believes this length, and forgets what lies beyond.
  EXPECT_EQ(changed->length, 100u);
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, ALostWriteIsReportedToItsWritersWhoeverNoticesItFirst) {
  const auto writer = MustCreate("bad");
  const auto second = vfs().Open(kCtx, {}, writer.entry.ino, {.read = false, .write = true});
  const auto reader = vfs().Open(kCtx, {}, writer.entry.ino, {.read = true});
  ASSERT_OK(second);
  ASSERT_OK(reader);
  objects_.InjectRandomly(Op::kPut, {.kind = Fault::Kind::kUnavailable}, 1.0);
  std::byte byte;
  const std::function<Result<void>()> others[] = {
      [&] { return Outcome(vfs().Open(kCtx, {}, writer.entry.ino, {.read = true})); },
      [&] { return Outcome(vfs().Read(kCtx, reader->handle, 0, std::span(&byte, 1))); },
      [&] { return Outcome(vfs().SetAttr(kCtx, {}, writer.entry.ino, {.length = 7})); },
      [&] {
        const Ino ino = writer.entry.ino;
        return Outcome(vfs().CopyRange(kCtx, ino, 0, ino, 100, 1));
      },
      [&] { return vfs().Flush(kCtx, reader->handle); },
  };
  for (const auto& notices : others) {
    ASSERT_OK(vfs().Write(kCtx, writer.handle, 0, AsBytes("data")));
    EXPECT_CODE(notices(), Code::kUnavailable);
    EXPECT_CODE(vfs().Flush(kCtx, writer.handle), Code::kUnavailable);
    EXPECT_CODE(vfs().Flush(kCtx, second->handle), Code::kUnavailable) << "it cannot know whose";
    EXPECT_OK(vfs().Flush(kCtx, writer.handle)) << "once";
  }
  const auto late = vfs().Open(kCtx, {}, writer.entry.ino, {.read = false, .write = true});
  ASSERT_OK(late);
  EXPECT_OK(vfs().Release(kCtx, late->handle)) << "what others lost before";
  for (const Handle handle : {writer.handle, second->handle, reader->handle})
    EXPECT_OK(vfs().Release(kCtx, handle));
}

TEST_F(VfsTest, AnInterruptedReaderCostsTheWriterNothing) {
  const auto file = MustCreate("a");
  objects_.InjectRandomly(Op::kPut, {.kind = Fault::Kind::kSlow, .delay = 300ms}, 1.0);
  for (const bool at_once : {true, false}) {
    const std::string content = at_once ? "first" : "second";
    ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes(content)));
    std::stop_source stop;
    if (at_once) stop.request_stop();
    const int before = objects_.calls(Op::kPut);
    const std::jthread interrupts([&] {  // while the opener waits for the upload
      while (!at_once && objects_.calls(Op::kPut) == before) std::this_thread::yield();
      stop.request_stop();
    });
    EXPECT_CODE(vfs().Open(kCtx.WithStop(stop.get_token()), {}, file.entry.ino, {.read = true}),
                Code::kCancelled);
    EXPECT_OK(vfs().Flush(kCtx, file.handle));
    EXPECT_EQ(ReadAll(vfs(), file.handle), content);
  }
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, DataThatIsGoneIsAnErrorNotZeros) {
  const auto file = MustCreate("lost");
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("data")));
  ASSERT_OK(vfs().Release(kCtx, file.handle));
  auto objects = object::ListEntries(objects_, kCtx, {.prefix = "chunks/"});
  for (const auto& object : *objects) ASSERT_OK(objects_.Delete(kCtx, object.key));
  Client other(url_, objects_);
  other.Start({});
  auto opened = other.vfs->Open(kCtx, {}, file.entry.ino, {.read = true});
  ASSERT_OK(opened);
  std::byte byte;
  EXPECT_CODE(other.vfs->Read(kCtx.WithTimeout(1s), opened->handle, 0, std::span(&byte, 1)),
              Code::kCorrupt);
  ASSERT_OK(other.vfs->Release(kCtx, opened->handle));
}

TEST_F(VfsTest, ManyOpenFilesWithFewBytesDoNotUseUpTheBuffers) {
  // 200 files of one byte would be 12.5 MiB of blocks; the budget is 4 MiB.
  std::vector<OpenedFile> files;
  for (int i = 0; i < 200; ++i) {
    files.push_back(MustCreate("f" + std::to_string(i)));
    ASSERT_OK(vfs().Write(kCtx, files.back().handle, 0, AsBytes("x")));
  }
  for (const auto& file : files) ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, AWriterThatWaitsForBuffersDoesNotStopThoseThatFreeThem) {
  client_ = std::make_unique<Client>(url_, objects_);
  client_->Start({.flush_idle = 1s, .flush_age = 60s});
  const auto waiting = MustCreate("waiting");  // the first by inode
  std::vector<OpenedFile> files;
  const std::string almost(kBlock - 1, 'y');  // a full block would leave at once
  for (int i = 0; i < 64; ++i) {
    files.push_back(MustCreate("f" + std::to_string(i)));
    ASSERT_OK(vfs().Write(kCtx, files.back().handle, 0, AsBytes(almost)));
  }
  std::jthread writer(
      [&] { EXPECT_OK(vfs().Write(kCtx.WithTimeout(20s), waiting.handle, 0, AsBytes(almost))); });
  std::jthread opener([&] {  // whoever waits for the file must not stop them either
    const auto opened = vfs().Open(kCtx, {}, waiting.entry.ino, {.read = true});
    EXPECT_OK(opened);
    if (opened) {
      EXPECT_OK(vfs().Release(kCtx, opened->handle));
    }
  });
  // The others are touched until the turn of the waiting one has come.
  for (const auto end = std::chrono::steady_clock::now() + 1500ms;
       std::chrono::steady_clock::now() < end;) {
    for (const auto& file : files) ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("z")));
  }
  writer.join();
  opener.join();
  for (const auto& file : files) ASSERT_OK(vfs().Release(kCtx, file.handle));
  ASSERT_OK(vfs().Release(kCtx, waiting.handle));
}

TEST_F(VfsTest, ManyWritersShareFewBuffers) {
  client_ = std::make_unique<Client>(url_, objects_, 1 << 20);
  client_->Start({});
  // Together they would like twice the buffers that there are.
  constexpr unsigned kWriters = 8;
  constexpr std::size_t kPiece = 100'000, kPieces = 25;
  const auto content = [](unsigned writer, std::size_t piece) {
    return std::string(kPiece, static_cast<char>('a' + (writer + piece) % 26));
  };
  std::vector<OpenedFile> files;
  for (unsigned i = 0; i < kWriters; ++i) files.push_back(MustCreate("f" + std::to_string(i)));
  {
    std::vector<std::jthread> writers;
    for (unsigned i = 0; i < kWriters; ++i) {
      writers.emplace_back([&, i] {
        for (std::size_t k = 0; k < kPieces; ++k)
          ASSERT_OK(vfs().Write(kCtx.WithTimeout(20s), files[i].handle, k * kPiece,
                                AsBytes(content(i, k))));
      });
    }
  }
  for (unsigned i = 0; i < kWriters; ++i) {
    ASSERT_OK(vfs().Flush(kCtx, files[i].handle));
    std::string expected;
    for (std::size_t k = 0; k < kPieces; ++k) expected += content(i, k);
    EXPECT_EQ(ReadAll(vfs(), files[i].handle), expected);
    ASSERT_OK(vfs().Release(kCtx, files[i].handle));
  }
}

TEST_F(VfsTest, WhoOpensAFileFreesTheBuffersThatItsWriterWaitsFor) {
  client_ = std::make_unique<Client>(url_, objects_);
  client_->Start({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("f");
  const std::string full(kBlock, 'x'), almost(kBlock - 1, 'y');
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes(full)));  // leaves at once
  for (std::uint64_t i = 1; i <= 64; ++i)  // slices behind it that hold every buffer
    ASSERT_OK(vfs().Write(kCtx, file.handle, i * 1'000'000, AsBytes(almost)));
  std::jthread writer(
      [&] { EXPECT_OK(vfs().Write(kCtx.WithTimeout(20s), file.handle, kBlock, AsBytes(full))); });
  const auto opened = vfs().Open(kCtx.WithTimeout(20s), {}, file.entry.ino, {.read = true});
  ASSERT_OK(opened);
  writer.join();
  ASSERT_OK(vfs().Release(kCtx, opened->handle));
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, WhoseTimeIsUpLosesNothingAndWaitsForNobody) {
  client_ = std::make_unique<Client>(url_, objects_);
  client_->Start({.flush_idle = 60s, .flush_age = 60s});
  const auto file = MustCreate("f");
  ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("data")));
  objects_.InjectRandomly(Op::kPut, {.kind = Fault::Kind::kSlow, .delay = 2s}, 1.0);
  EXPECT_CODE(vfs().Open(kCtx.WithTimeout(50ms), {}, file.entry.ino, {.read = true}),
              Code::kDeadline);
  std::atomic<bool> flushed = false;
  std::jthread flusher([&] {
    EXPECT_OK(vfs().Flush(kCtx, file.handle)) << "it goes on where the other stopped";
    flushed = true;
  });
  // Also who waits for the flush of another can be interrupted.
  std::stop_source stop;
  std::jthread interrupts([&] { stop.request_stop(); });
  EXPECT_CODE(vfs().Open(kCtx.WithStop(stop.get_token()), {}, file.entry.ino, {.read = true}),
              Code::kCancelled);
  EXPECT_FALSE(flushed);
  flusher.join();
  EXPECT_EQ(ReadAll(vfs(), file.handle), "data");
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

TEST_F(VfsTest, CreatingAFileAnewDropsWhatWasBeingWritten) {
  const auto first = MustCreate("f");
  ASSERT_OK(vfs().Write(kCtx, first.handle, 0, AsBytes("old")));
  const auto second =
      vfs().Create(kCtx, {}, kRootIno, "f", 0644, {.read = true, .write = true, .truncate = true},
                   /*exclusive=*/false);
  ASSERT_OK(second);
  EXPECT_EQ(second->entry.attr.length, 0u);
  EXPECT_EQ(ReadAll(vfs(), second->handle), "");
  for (const Handle handle : {first.handle, second->handle}) ASSERT_OK(vfs().Release(kCtx, handle));
}

TEST_F(VfsTest, OpeningAFileDoesNotSetAnAppenderBack) {
  const auto file = MustCreate("log", {.read = true, .write = true, .append = true});
  constexpr int kLines = 500;
  {
    std::vector<std::jthread> openers;
    for (int i = 0; i < 4; ++i) {
      openers.emplace_back([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          auto opened = vfs().Open(kCtx, {}, file.entry.ino, {.read = true});
          ASSERT_OK(opened);
          ASSERT_OK(vfs().Release(kCtx, opened->handle));
        }
      });
    }
    for (int i = 0; i < kLines; ++i) {
      ASSERT_OK(vfs().Write(kCtx, file.handle, 0, AsBytes("line")));
      ASSERT_OK(vfs().Flush(kCtx, file.handle));
    }
  }
  EXPECT_EQ(ReadAll(vfs(), file.handle).size(), 4u * kLines);
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

// Random writes, truncations and reads, compared with a string.
TEST_F(VfsTest, BehavesLikeAStringOfBytes) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto upto = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n)(random);
  };
  auto file = MustCreate("model");
  std::string model;
  for (int step = 0; step < 400; ++step) {
    const std::size_t offset = upto(model.size() + kBlock);
    switch (upto(9)) {
      case 0:
        ASSERT_OK(vfs().SetAttr(kCtx, {}, file.entry.ino, {.length = offset}));
        model.resize(offset, '\0');
        break;
      case 1:
        ASSERT_OK(vfs().Flush(kCtx, file.handle));
        break;
      case 2: {
        ASSERT_OK(vfs().Release(kCtx, file.handle));
        auto again = vfs().Open(kCtx, {}, file.entry.ino, {.read = true, .write = true});
        ASSERT_OK(again);
        file = *again;
        break;
      }
      case 3:
      case 4: {
        const std::size_t wanted = upto(2 * kBlock);
        std::string out(wanted, '?');
        auto n = vfs().Read(kCtx, file.handle, offset, std::as_writable_bytes(std::span(out)));
        ASSERT_OK(n);
        out.resize(*n);
        ASSERT_EQ(out, offset < model.size() ? model.substr(offset, wanted) : "");
        break;
      }
      case 5: {
        const std::size_t length = upto(kBlock);
        ASSERT_OK(vfs().Fallocate(kCtx, {}, file.entry.ino, FallocateMode::kPunchHole, offset,
                                  length + 1));
        for (std::size_t i = offset; i < std::min(model.size(), offset + length + 1); ++i)
          model[i] = '\0';
        break;
      }
      default: {
        const std::string data(1 + upto(3 * kBlock), static_cast<char>('a' + step % 26));
        ASSERT_OK(vfs().Write(kCtx, file.handle, offset, AsBytes(data)));
        if (model.size() < offset + data.size()) model.resize(offset + data.size(), '\0');
        model.replace(offset, data.size(), data);
      }
    }
    ASSERT_EQ(vfs().GetAttr(kCtx, file.entry.ino)->length, model.size()) << "step " << step;
  }
  EXPECT_EQ(ReadAll(vfs(), file.handle), model);
  ASSERT_OK(vfs().Release(kCtx, file.handle));
}

}  // namespace
}  // namespace paddleop::volume
