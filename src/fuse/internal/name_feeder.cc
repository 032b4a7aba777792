#include "fuse/internal/name_feeder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <vector>

#include "base/thread_pool.h"
#include "fuse/metrics.h"

namespace paddleop::fuse {
namespace {

using volume::Ino;
using volume::Tree;

// An inode and a name of the kernel's, with what belongs to them.
constexpr std::size_t kBytesPerName = 1536;
constexpr std::size_t kShareOfMemory = 16;
constexpr std::size_t kListingBuffer = 64U << 10;

std::size_t NamesThatFit() {
  struct sysinfo info = {};
  if (::sysinfo(&info) != 0) return 0;
  return std::size_t{info.totalram} * info.mem_unit / kShareOfMemory / kBytesPerName;
}

}  // namespace

bool WorthListing(std::size_t asked, std::size_t names) {
  constexpr std::size_t kLeast = 4, kShare = 32;
  return asked >= std::max(kLeast, names / kShare) && names > 2 * asked;
}

NameFeeder::NameFeeder(volume::DataSet& data, OwnMount& mount, MetricsRegistry& metrics,
                       const Logger& log)
    : data_(data),
      mount_(mount),
      log_(log),
      listed_(metrics.AddCounter(kListedNames, kListedNamesHelp)),
      room_(NamesThatFit()),
      thread_([this](const std::stop_token& stop) {
        SetThreadName("name-feeder");
        Run(stop);
      }) {}

NameFeeder::~NameFeeder() { Stop(); }

void NameFeeder::Stop() {
  ended_ = true;
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void NameFeeder::Asked(const volume::DataSet::View& tree, Tree::NodeIndex directory) {
  if (ended_.load(std::memory_order_relaxed)) return;
  const Ino ino = tree->ino(directory);
  const std::size_t names = tree->child_count(directory);
  MutexLock lock(mutex_);
  if (tree_.owner_before(tree) || tree.owner_before(tree_)) {
    // Refreshed: what the kernel still knows is not asked for.
    tree_ = tree;
    directories_.clear();
  }
  Directory& known = directories_[ino];
  ++known.asked;
  if (known.listed || names > room_ || !WorthListing(known.asked, names)) return;
  known.listed = true;
  room_ -= names;
  queue_.push_back(ino);
  changed_.notify_one();
}

void NameFeeder::Run(const std::stop_token& stop) {
  for (;;) {
    Ino next{};
    {
      MutexLock lock(mutex_);
      if (!changed_.wait(lock, stop, [&]() REQUIRES(mutex_) { return !queue_.empty(); })) return;
      next = queue_.front();
      queue_.pop_front();
    }
    auto names = List(stop, next);
    if (!names) {
      log_.Debug(Context::Background(), "names are left to be looked up",
                 {{"error", names.error().message()}});
      if (!OwnMount::IsForGood(names.error())) continue;
      ended_ = true;
      return;
    }
    listed_.Increment(static_cast<double>(*names));
  }
}

Result<std::size_t> NameFeeder::List(const std::stop_token& stop, Ino directory) {
  const std::string path = mount_.PathOf(data_.view(), directory);
  if (path.empty()) return 0;
  ASSIGN_OR_RETURN(const UniqueFd mount, mount_.Copy());
  const UniqueFd list(::openat(mount.get(), path.c_str(),
                               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NOATIME));
  if (!list.valid()) return 0;  // refreshed meanwhile
  std::vector<char> buffer(kListingBuffer);
  std::size_t names = 0;
  while (!stop.stop_requested()) {
    const ssize_t got = ::getdents64(list.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    for (ssize_t at = 0; at < got; ++names)
      at += reinterpret_cast<const dirent64*>(buffer.data() + at)->d_reclen;
  }
  return names;
}

}  // namespace paddleop::fuse
