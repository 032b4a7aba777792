#include "fuse/internal/page_keeper.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/thread_pool.h"
#include "fuse/internal/kernel_mount.h"
#include "fuse/metrics.h"

namespace paddleop::fuse {
namespace {

using std::chrono::steady_clock;
using volume::Ino;
using volume::Tree;

// A program needs pages until it has copied them, so they linger for a while; but no more than
// these bytes of more than these files, many times what readers have in hand. The thread is woken
// for no less than a batch beyond that.
constexpr std::chrono::milliseconds kLinger{250};
constexpr std::uint64_t kLingeringBytes = 32ULL << 20;
constexpr std::size_t kLingeringFiles = 128;
constexpr std::uint64_t kBatch = 4ULL << 20;
// If the thread does not keep up, pages are left to the kernel.
constexpr std::uint64_t kMostQueued = 1ULL << 30;
constexpr std::size_t kMostFilesQueued = 1U << 16;

constexpr std::size_t kSample = 256;
constexpr std::size_t kPage = 4096;

// How the kernel names a file to those who open it by handle: its inode there, and a generation,
// which is always 0 with us.
struct Handle {
  static constexpr int kType = 0x81;  // FILEID_INO64_GEN
  std::uint32_t high;
  std::uint32_t low;
  std::uint32_t generation;
};

// The root of a private copy of the mount, as opening by handle wants it.
Result<UniqueFd> PrivateRoot(const std::string& mount_point, unsigned minor) {
  ASSIGN_OR_RETURN(const UniqueFd copy, CopyOfMount(mount_point, minor));
  UniqueFd root(::openat(copy.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME));
  if (!root.valid()) return ErrnoFail("open a copy of {}", mount_point);
  return root;
}

bool HasPages(const UniqueFd& file) {
  void* const mapped = ::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return true;  // unknown
  unsigned char present = 1;
  ::mincore(mapped, kPage, &present);
  ::munmap(mapped, kPage);
  return (present & 1U) != 0;
}

}  // namespace

PageKeeper::PageKeeper(volume::DataSet& data, std::string mount_point, unsigned minor,
                       MetricsRegistry& metrics, const Logger& log)
    : data_(data),
      mount_point_(std::move(mount_point)),
      minor_(minor),
      inos_{.root = data.view()->root()},
      log_(log),
      dropped_files_(metrics.AddCounter(kDroppedFiles, kDroppedFilesHelp)),
      dropped_bytes_(metrics.AddCounter(kDroppedBytes, kDroppedBytesHelp)),
      share_(metrics.AddGauge(kPageShare, kPageShareHelp)),
      admission_(0),
      thread_([this](const std::stop_token& stop) {
        SetThreadName("page-keeper");
        Run(stop);
      }) {
  share_.Set(1);
}

PageKeeper::~PageKeeper() { Stop(); }

void PageKeeper::Stop() {
  ended_ = true;
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void PageKeeper::Answered(Ino file, std::uint64_t offset, std::uint64_t size) {
  if (ended_.load(std::memory_order_relaxed) || size == 0) return;
  const volume::DataSet::View tree = data_.view();
  const Tree::NodeIndex node = tree->Find(file);
  if (node == Tree::kNone || tree->length(node) > kLargestFile) return;
  MutexLock lock(mutex_);
  if (tree_.owner_before(tree) || tree.owner_before(tree_)) {
    // Refreshed: files have other numbers.
    tree_ = tree;
    admission_ = PageAdmission(tree->node_count());
  }
  const bool was_suspicious = admission_.suspicious();
  if (offset == 0) {
    admission_.Begin(node);
  } else {
    admission_.Continue(node);
  }
  const bool shall_go = offset + size >= tree->length(node) && admission_.End(node) &&
                        queued_bytes_ < kMostQueued && queue_.size() < kMostFilesQueued;
  const bool waited = Waits();
  const bool was_too_much = TooMuch();
  if (shall_go) {
    queue_.push_back({file, tree->length(node), steady_clock::now()});
    queued_bytes_ += tree->length(node);
  }
  if ((Waits() && !waited) || (TooMuch() && !was_too_much) ||
      (admission_.suspicious() && !was_suspicious)) {
    changed_.notify_one();
  }
}

PageKeeperStatus PageKeeper::Status() {
  MutexLock lock(mutex_);
  return {.period = admission_.period(),
          .dropped_files = all_dropped_files_,
          .dropped_bytes = all_dropped_bytes_};
}

bool PageKeeper::Waits() const { return !queue_.empty(); }

bool PageKeeper::TooMuch() const {
  return queue_.size() > kLingeringFiles && queued_bytes_ > kLingeringBytes + kBatch;
}

std::vector<PageKeeper::File> PageKeeper::TakeDue() {
  std::vector<File> due;
  const auto now = steady_clock::now();
  while (!queue_.empty() && ((queue_.size() > kLingeringFiles && queued_bytes_ > kLingeringBytes) ||
                             now >= queue_.front().read + kLinger)) {
    queued_bytes_ -= queue_.front().bytes;
    due.push_back(queue_.front());
    queue_.pop_front();
  }
  return due;
}

void PageKeeper::Run(const std::stop_token& stop) {
  Result<void> done;
  while (done && !stop.stop_requested()) {
    std::vector<File> due;
    bool suspicious = false;
    {
      MutexLock lock(mutex_);
      changed_.wait(lock, stop,
                    [&]() REQUIRES(mutex_) { return admission_.suspicious() || Waits(); });
      if (Waits()) {
        changed_.wait_until(lock, stop, queue_.front().read + kLinger, [&]() REQUIRES(mutex_) {
          return admission_.suspicious() || TooMuch();
        });
      }
      due = TakeDue();
      suspicious = admission_.suspicious();
    }
    if (!due.empty()) done = Drop(due);
    if (done && suspicious) done = Look();
  }
  if (done) return;
  log_.Debug(Context::Background(), "the page cache is left to the kernel",
             {{"error", done.error().message()}});
  ended_ = true;
}

Result<UniqueFd> PageKeeper::Open(const UniqueFd& mount, Ino file) const {
  const fuse_ino_t ino = inos_.ToKernel(file);
  const Handle handle{.high = static_cast<std::uint32_t>(ino >> 32),
                      .low = static_cast<std::uint32_t>(ino),
                      .generation = 0};
  alignas(file_handle) std::byte memory[sizeof(file_handle) + sizeof handle];
  auto* const name = new (memory) file_handle;
  name->handle_bytes = sizeof handle;
  name->handle_type = Handle::kType;
  std::memcpy(name->f_handle, &handle, sizeof handle);
  UniqueFd opened(
      ::open_by_handle_at(mount.get(), name, O_RDONLY | O_CLOEXEC | O_NOATIME | O_NONBLOCK));
  if (!opened.valid() && errno != ESTALE && errno != ENOENT)
    return ErrnoFail("open a file of {} by handle", mount_point_);
  return opened;
}

Result<void> PageKeeper::Drop(const std::vector<File>& files) {
  ASSIGN_OR_RETURN(const UniqueFd mount, PrivateRoot(mount_point_, minor_));
  std::uint64_t count = 0, bytes = 0;
  for (const File& file : files) {
    ASSIGN_OR_RETURN(const UniqueFd opened, Open(mount, file.ino));
    if (!opened.valid()) continue;
    ::posix_fadvise(opened.get(), 0, 0, POSIX_FADV_DONTNEED);
    ++count;
    bytes += file.bytes;
  }
  dropped_files_.Increment(static_cast<double>(count));
  dropped_bytes_.Increment(static_cast<double>(bytes));
  MutexLock lock(mutex_);
  all_dropped_files_ += count;
  all_dropped_bytes_ += bytes;
  share_.Set(1.0 / static_cast<double>(admission_.period()));
  return {};
}

std::vector<Ino> PageKeeper::Sample() {
  std::vector<Ino> sample;
  MutexLock lock(mutex_);
  const auto tree = tree_.lock();
  if (!tree) return sample;
  std::uniform_int_distribution<std::size_t> any(0, admission_.files() - 1);
  for (std::size_t i = 0; i < 32 * kSample && sample.size() < kSample; ++i) {
    const std::size_t node = any(random_);
    if (admission_.Stays(node)) sample.push_back(tree->ino(static_cast<Tree::NodeIndex>(node)));
  }
  return sample;
}

Result<void> PageKeeper::Look() {
  ASSIGN_OR_RETURN(const UniqueFd mount, PrivateRoot(mount_point_, minor_));
  const std::vector<Ino> sample = Sample();
  std::size_t gone = 0;
  for (const Ino ino : sample) {
    ASSIGN_OR_RETURN(const UniqueFd opened, Open(mount, ino));
    if (!opened.valid() || !HasPages(opened)) ++gone;
  }
  // A few are always gone: kernels also drop what was not read for a while.
  const bool is_short = gone * 16 > sample.size();
  MutexLock lock(mutex_);
  admission_.Confirm(is_short);
  share_.Set(1.0 / static_cast<double>(admission_.period()));
  lock.unlock();
  log_.Debug(Context::Background(), "files came back",
             {{"looked at", sample.size()}, {"gone", gone}});
  return {};
}

}  // namespace paddleop::fuse
