// Creates, looks up and removes files from several threads, through the library (a metadata URL) or
// through a mount (a path), and prints operations per second.
//
//   meta_bench redis://127.0.0.1:6379/1 8 4000        # a volume that is there already
//   meta_bench /mnt/jfs 8 4000
//   meta_bench redis://127.0.0.1:6379/1 --load        # reads the whole tree, without and with
//   slices
#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "volume/meta/meta_store.h"

namespace {

using namespace paddleop;
using namespace paddleop::volume;

const Context kContext = Context::Background();
const Caller kRoot;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

template <class T>
T Must(Result<T> result) {
  if (!result) Die(result.error().ToString());
  return *std::move(result);
}

void Must(const Result<void>& result) {
  if (!result) Die(result.error().ToString());
}

void MustSucceed(int returned, const char* what) {
  if (returned < 0) {
    std::perror(what);
    std::exit(1);
  }
}

// What is measured; `dir` is the number of a directory.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual void MakeDir(int dir) = 0;
  virtual void Create(int dir, const std::string& name) = 0;
  virtual void Lookup(int dir, const std::string& name) = 0;
  virtual void Remove(int dir, const std::string& name) = 0;
};

class Library final : public Subject {
 public:
  explicit Library(const std::string& url) : store_(Must(OpenMetaStore(kContext, url, {}))) {
    Must(store_->Load(kContext));
  }
  void MakeDir(int dir) override {
    const std::string name = "bench" + std::to_string(dir);
    inodes_.push_back(Must(store_->Mkdir(kContext, kRoot, kRootIno, name, 0777)).ino);
  }
  void Create(int dir, const std::string& name) override {
    const Ino ino = Must(store_->Create(kContext, kRoot, At(dir), name, 0644, true)).ino;
    Must(store_->Close(kContext, ino));
  }
  void Lookup(int dir, const std::string& name) override {
    Must(store_->Lookup(kContext, kRoot, At(dir), name));
  }
  void Remove(int dir, const std::string& name) override {
    Must(store_->Unlink(kContext, kRoot, At(dir), name));
  }
  MetaStore& store() { return *store_; }

 private:
  Ino At(int dir) const { return inodes_[static_cast<std::size_t>(dir)]; }

  std::unique_ptr<MetaStore> store_;
  std::vector<Ino> inodes_;
};

class Mount final : public Subject {
 public:
  explicit Mount(std::string path) : path_(std::move(path)) {}
  void MakeDir(int dir) override { MustSucceed(::mkdir(At(dir).c_str(), 0777), "mkdir"); }
  void Create(int dir, const std::string& name) override {
    const int fd = ::open((At(dir) + "/" + name).c_str(), O_CREAT | O_EXCL | O_WRONLY, 0644);
    MustSucceed(fd, "create");
    MustSucceed(::close(fd), "close");
  }
  void Lookup(int dir, const std::string& name) override {
    struct stat info{};
    MustSucceed(::stat((At(dir) + "/" + name).c_str(), &info), "stat");
  }
  void Remove(int dir, const std::string& name) override {
    MustSucceed(::unlink((At(dir) + "/" + name).c_str()), "unlink");
  }

 private:
  std::string At(int dir) const { return path_ + "/bench" + std::to_string(dir); }

  std::string path_;
};

void Measure(const char* label, int threads, int files,
             const std::function<void(int thread, int file)>& operation) {
  const auto begin = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        for (int i = 0; i < files; ++i) operation(t, i);
      });
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%-16s %10.0f /s\n", label, threads * files / took.count());
  std::fflush(stdout);
}

void Operations(Subject& subject, int threads, int files) {
  for (int dir = 0; dir <= threads; ++dir) subject.MakeDir(dir);
  const auto name = [](int thread, int file) {
    return "f" + std::to_string(thread) + "-" + std::to_string(file);
  };
  Measure("create", threads, files, [&](int t, int i) { subject.Create(t, name(t, i)); });
  Measure("create (1 dir)", threads, files / 4,
          [&](int t, int i) { subject.Create(threads, name(t, i)); });
  // A mount's kernel has just seen the names; its entries live for a second.
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  Measure("lookup", threads, files, [&](int t, int i) { subject.Lookup(t, name(t, i)); });
  Measure("unlink", threads, files, [&](int t, int i) { subject.Remove(t, name(t, i)); });
  Measure("unlink (1 dir)", threads, files / 4,
          [&](int t, int i) { subject.Remove(threads, name(t, i)); });
}

// Resident memory of this process, with what the allocator keeps given back first.
double ResidentBytes() {
  ::malloc_trim(0);
  long total = 0;
  long resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%ld %ld", &total, &resident) != 2) Die("no statm");
  std::fclose(file);
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

void Load(Library& library) {
  for (const bool with_slices : {false, true}) {
    const double before = ResidentBytes();
    const auto begin = std::chrono::steady_clock::now();
    const Tree tree = Must(library.store().LoadTree(kContext, kRootIno, with_slices));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    const auto count = static_cast<double>(tree.node_count());
    std::printf("%-16s %10.0f inodes/s  %zu inodes, %.1f bytes each, %.1f resident\n",
                with_slices ? "load with slices" : "load", count / took.count(), tree.node_count(),
                static_cast<double>(tree.MemoryBytes()) / count,
                (ResidentBytes() - before) / count);
  }
}

// Files of one slice each, a thousand to a directory of the root; packed: 40 share a slice, as an
// import would do it, and all directories lie in one, "fill".
void Fill(Library& library, int count, bool packed) {
  MetaStore& store = library.store();
  const Ino top =
      packed ? Must(store.Mkdir(kContext, kRoot, kRootIno, "fill", 0777)).ino : kRootIno;
  const auto begin = std::chrono::steady_clock::now();
  for (int made = 0; made < count; made += 1000) {
    const Ino dir =
        Must(store.Mkdir(kContext, kRoot, top, "fill" + std::to_string(made), 0777)).ino;
    std::vector<NewFile> files(1000);
    constexpr std::uint32_t kLength = 100'000, kPerSlice = 40;
    std::uint64_t id = 0;
    for (std::size_t i = 0; i < files.size(); ++i) {
      files[i].parent = dir;
      files[i].name = "sample-" + std::to_string(static_cast<std::size_t>(made) + i) + ".jpg";
      files[i].length = kLength;
      const auto place = static_cast<std::uint32_t>(packed ? i % kPerSlice : 0);
      if (place == 0) id = Must(store.NewSliceId(kContext));
      files[i].chunks = {{.index = 0,
                          .slices = {{.pos = 0,
                                      .id = id,
                                      .size = packed ? kLength * kPerSlice : kLength,
                                      .off = place * kLength,
                                      .len = kLength}}}};
    }
    for (auto& answer : store.CommitFiles(kContext, files, {})) Must(std::move(answer));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%-16s %10.0f files/s\n", "commit", count / took.count());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string target = argc > 1 ? argv[1] : "";
  const std::string how = argc > 2 ? argv[2] : "";
  if (target.empty() || how.empty()) {
    Die("usage: meta_bench URL|PATH THREADS FILES_PER_THREAD\n"
        "       meta_bench URL --fill[-packed] FILES\n       meta_bench URL --load");
  }
  if (how == "--load") {
    Library library(target);
    Load(library);
    return 0;
  }
  const int number = argc > 3 ? std::atoi(argv[3]) : 1000;
  if (how == "--fill" || how == "--fill-packed") {
    Library library(target);
    Fill(library, number, how == "--fill-packed");
    return 0;
  }
  if (target.starts_with('/')) {
    Mount mount(target);
    Operations(mount, std::atoi(how.c_str()), number);
  } else {
    Library library(target);
    Operations(library, std::atoi(how.c_str()), number);
  }
  return 0;
}
