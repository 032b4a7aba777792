#include "fuse/internal/page_keeper.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "base/thread_pool.h"
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
constexpr std::size_t kMostFilesAtOnce = 1024;
// If the thread does not keep up, pages are left to the kernel.
constexpr std::uint64_t kMostQueued = 1ULL << 30;
constexpr std::size_t kMostFilesQueued = 1U << 16;

// Making a copy of the mount, and taking it away, holds up everybody who mounts.
constexpr std::chrono::seconds kCopyLasts{1};

constexpr std::size_t kSample = 256;
constexpr std::size_t kPage = 4096;

bool HasPages(const UniqueFd& file) {
  void* const mapped = ::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return true;  // unknown
  unsigned char present = 1;
  ::mincore(mapped, kPage, &present);
  ::munmap(mapped, kPage);
  return (present & 1U) != 0;
}

// Not this file alone cannot be opened.
bool IsForAll(const Status& error) {
  // The kernel has no openat2, or not all of it.
  return error.code() == Code::kNotSupported || error.code() == Code::kInvalid;
}

}  // namespace

PageKeeper::PageKeeper(volume::DataSet& data, OwnMount& mount, MetricsRegistry& metrics,
                       const Logger& log)
    : data_(data),
      mount_(mount),
      log_(log),
      dropped_files_(metrics.AddCounter(kDroppedFiles, kDroppedFilesHelp)),
      dropped_bytes_(metrics.AddCounter(kDroppedBytes, kDroppedBytesHelp)),
      share_(metrics.AddGauge(kPageShare, kPageShareHelp)),
      admission_(0) {
  share_.Set(1);
  thread_ = std::jthread([this](const std::stop_token& stop) {
    SetThreadName("page-keeper");
    Run(stop);
  });
}

PageKeeper::~PageKeeper() { Stop(); }

void PageKeeper::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void PageKeeper::Follow(const volume::DataSet::View& tree) {
  if (!tree_.owner_before(tree) && !tree.owner_before(tree_)) return;
  tree_ = tree;
  admission_.Renumber(tree->node_count());
}

void PageKeeper::Asked(Ino file, std::uint64_t offset, std::uint64_t size) {
  if (ended_.load(std::memory_order_relaxed) || size == 0) return;
  const volume::DataSet::View tree = data_.view();
  const Tree::NodeIndex node = tree->Find(file);
  if (node == Tree::kNone || tree->length(node) > kLargestFile) return;
  MutexLock lock(mutex_);
  Follow(tree);
  if (queued_bytes_ > kMostQueued || queue_.size() > kMostFilesQueued) return;
  const bool was_suspicious = admission_.suspicious();
  const bool waited = Waits();
  const bool was_too_much = TooMuch();
  const std::size_t period = admission_.period();
  if (admission_.Asked(node, offset == 0, offset + size >= tree->length(node))) {
    queue_.push_back({file, tree->length(node), steady_clock::now()});
    queued_bytes_ += tree->length(node);
  }
  if (period != admission_.period()) share_.Set(1.0 / static_cast<double>(admission_.period()));
  if ((Waits() && !waited) || (TooMuch() && !was_too_much) ||
      (admission_.suspicious() && !was_suspicious)) {
    changed_.notify_one();
  }
}

PageKeeperStatus PageKeeper::Status() {
  MutexLock lock(mutex_);
  return {.period = ended_ ? 1 : admission_.period(),
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
  while (!queue_.empty() && due.size() < kMostFilesAtOnce &&
         ((queue_.size() > kLingeringFiles && queued_bytes_ > kLingeringBytes) ||
          now >= queue_.front().read + kLinger)) {
    queued_bytes_ -= queue_.front().bytes;
    due.push_back(queue_.front());
    queue_.pop_front();
  }
  return due;
}

bool PageKeeper::WaitForWork(const std::stop_token& stop, std::vector<File>* due) {
  MutexLock lock(mutex_);
  const auto work = [&]() REQUIRES(mutex_) { return admission_.suspicious() || Waits(); };
  if (!work()) {
    // Nobody needs the copy as long as this may take; with it, the mount could not end.
    copy_.Reset();
    changed_.wait(lock, stop, work);
  }
  if (Waits()) {
    changed_.wait_until(lock, stop, queue_.front().read + kLinger,
                        [&]() REQUIRES(mutex_) { return admission_.suspicious() || TooMuch(); });
  }
  *due = TakeDue();
  return admission_.suspicious();
}

void PageKeeper::Run(const std::stop_token& stop) {
  while (!ended_) {
    std::vector<File> due;
    const bool look = WaitForWork(stop, &due);
    if (stop.stop_requested()) break;
    auto done = Work(stop, due, look);
    Done(due, done.has_value());
    if (done) continue;
    log_.Debug(Context::Background(), "pages are left to the kernel",
               {{"error", done.error().message()}});
    ended_ = OwnMount::IsForGood(done.error()) || IsForAll(done.error());
  }
  ended_ = true;
  copy_.Reset();
  share_.Set(1);
}

Result<void> PageKeeper::Work(const std::stop_token& stop, const std::vector<File>& due,
                              bool look) {
  if (!due.empty()) RETURN_IF_ERROR(Drop(stop, due));
  if (look) RETURN_IF_ERROR(Look(stop));
  return {};
}

void PageKeeper::Done(const std::vector<File>& files, bool looked) {
  MutexLock lock(mutex_);
  if (!looked) admission_.Confirm(false);
  const auto tree = tree_.lock();
  if (!tree) return;
  for (const File& file : files) {
    const Tree::NodeIndex node = tree->Find(file.ino);
    if (node != Tree::kNone) admission_.Dropped(node);
  }
}

Result<const UniqueFd*> PageKeeper::Copy() {
  const auto now = steady_clock::now();
  if (!copy_.valid() || now >= copied_ + kCopyLasts) {
    copy_.Reset();
    ASSIGN_OR_RETURN(copy_, mount_.Copy());
    copied_ = now;
  }
  return &copy_;
}

Result<void> PageKeeper::Drop(const std::stop_token& stop, const std::vector<File>& files) {
  ASSIGN_OR_RETURN(const UniqueFd* const copy, Copy());
  const volume::DataSet::View tree = data_.view();
  std::uint64_t count = 0, bytes = 0;
  for (const File& file : files) {
    if (stop.stop_requested()) break;
    const std::string path = mount_.PathOf(tree, file.ino);
    if (path.empty()) continue;
    auto opened = OwnMount::OpenKnown(*copy, path);
    if (!opened && IsForAll(opened.error())) return std::unexpected(std::move(opened).error());
    if (!opened) continue;
    ::posix_fadvise(opened->get(), 0, 0, POSIX_FADV_DONTNEED);
    ++count;
    bytes += file.bytes;
  }
  dropped_files_.Increment(static_cast<double>(count));
  dropped_bytes_.Increment(static_cast<double>(bytes));
  MutexLock lock(mutex_);
  all_dropped_files_ += count;
  all_dropped_bytes_ += bytes;
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

Result<void> PageKeeper::Look(const std::stop_token& stop) {
  ASSIGN_OR_RETURN(const UniqueFd* const copy, Copy());
  const std::vector<Ino> sample = Sample();
  const volume::DataSet::View tree = data_.view();
  std::size_t gone = 0;
  for (const Ino ino : sample) {
    if (stop.stop_requested()) return {};
    auto opened = OwnMount::OpenKnown(*copy, mount_.PathOf(tree, ino));
    if (!opened && IsForAll(opened.error())) return std::unexpected(std::move(opened).error());
    // What the kernel does not know any more it has no pages of.
    if (!opened || !HasPages(*opened)) ++gone;
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
