#include "volume/cache/internal/block_file.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "volume/format/cache_file.h"

namespace paddleop::volume::cache {
namespace {

constexpr std::uint32_t kPiece = kCacheChecksumSpan;
constexpr std::uint32_t kFine = kFineChecksumSpan;
constexpr std::uint64_t kBytesPerWord = std::uint64_t{64} * kFine;  // of verified steps
constexpr std::uint32_t kAlign = 4096;

constexpr std::uint32_t PieceCount(std::uint32_t length) { return (length + kPiece - 1) / kPiece; }

// So long a file stays open before its time of reading is set again.
constexpr auto kNoteInterval = std::chrono::hours(1);

bool IsInMemory(int fd) {
  struct statfs info{};
  return ::fstatfs(fd, &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

// A thread keeps this much between reads; more is given back at once.
constexpr std::size_t kKeptBuffer = 1U << 20;

}  // namespace

VerifiedPieces::VerifiedPieces(std::uint32_t length)
    : words_((length + kBytesPerWord - 1) / kBytesPerWord) {}

bool VerifiedPieces::Test(std::uint64_t begin, std::uint64_t end) const {
  for (std::uint64_t step = begin / kFine; step * kFine < end; ++step) {
    if ((words_[step / 64].load(std::memory_order_acquire) >> (step % 64) & 1) == 0) return false;
  }
  return true;
}

void VerifiedPieces::Set(std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t step = begin / kFine; step * kFine < end; ++step)
    words_[step / 64].fetch_or(1ULL << (step % 64), std::memory_order_release);
}

std::shared_ptr<VerifiedPieces> VerifiedTable::Find(const BlockId& block, std::uint64_t inode,
                                                    std::int64_t written) {
  Shard& shard = ShardOf(block);
  MutexLock lock(shard.mutex);
  auto found = shard.entries.find(block);
  if (found == shard.entries.end()) {
    if (shard.entries.size() >= kPerShard) shard.entries.clear();
    found = shard.entries.emplace(block, Entry{}).first;
  }
  Entry& entry = found->second;
  if (!entry.pieces || entry.inode != inode || entry.written != written) {
    entry = {.inode = inode,
             .written = written,
             .pieces = std::make_shared<VerifiedPieces>(block.length)};
  }
  return entry.pieces;
}

void VerifiedTable::Forget(const BlockId& block) {
  Shard& shard = ShardOf(block);
  MutexLock lock(shard.mutex);
  shard.entries.erase(block);
}

std::byte* AlignedBuffer::Get(std::size_t size) {
  if (size > size_) {
    const std::size_t rounded = (size + kAlign - 1) / kAlign * kAlign;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlign, rounded)));
    CHECK(memory_ != nullptr, "no memory for a read of {} bytes", rounded);
    size_ = rounded;
  }
  return memory_.get();
}

OpenBlock::OpenBlock(UniqueFd fd, bool direct, const BlockId& block, std::uint64_t stored,
                     std::vector<std::uint32_t> fine, ChecksumLevel level,
                     std::shared_ptr<VerifiedPieces> verified, Home home)
    : fd_(std::move(fd)),
      direct_(direct),
      in_memory_(IsInMemory(fd_.get())),
      block_(block),
      has_checksums_(stored > block.length && level != ChecksumLevel::kNone),
      fine_(std::move(fine)),
      level_(level),
      verified_(std::move(verified)),
      home_(std::move(home)) {}

bool OpenBlock::Unlinked() const {
  struct stat info{};
  return ::fstat(fd_.get(), &info) != 0 || info.st_nlink == 0;
}

void OpenBlock::NoteReads() const {
  const auto now = Operations::Steady::now();
  if (now - noted_.load() < kNoteInterval || !read_.exchange(false)) return;
  noted_ = now;
  const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  ::futimens(fd_.get(), times);
}

BlockFile::Span OpenBlock::ToRead(std::uint32_t offset, std::uint32_t size) const {
  if (!read_.load(std::memory_order_relaxed)) read_.store(true, std::memory_order_relaxed);
  if (size == 0) return {offset, 0};
  std::uint32_t begin = offset, end = offset + size;
  const bool check =
      has_checksums_ && level_ == ChecksumLevel::kExtend && !verified_->Test(begin, end);
  if (check) {
    const std::uint32_t step = UsesFine() ? kFine : kPiece;
    begin = begin / step * step;
    end = std::min(block_.length, (end + step - 1) / step * step);
  }
  if (direct_) {
    begin = begin / kAlign * kAlign;
    end = (end + kAlign - 1) / kAlign * kAlign;  // past the block, where its checksums are
  }
  return {begin, end - begin};
}

bool OpenBlock::Corrupt(const std::string& why) {
  if (good_.exchange(false)) home_.on_corrupt(block_, why);
  return false;
}

bool OpenBlock::ReadFailed(ssize_t got) {
  if (got >= 0) return Corrupt("the file ends too early");
  const int error = errno;
  if (good_.exchange(false)) home_.on_error(error);
  return false;
}

bool OpenBlock::LoadChecksums() {
  MutexLock lock(mutex_);
  if (!checksums_.empty()) return true;
  const std::uint32_t count = PieceCount(block_.length);
  const std::uint32_t from = direct_ ? block_.length / kAlign * kAlign : block_.length;
  const std::uint32_t skip = block_.length - from;
  const std::size_t wanted = skip + std::size_t{count} * 4;
  AlignedBuffer buffer;
  const std::size_t rounded = (wanted + kAlign - 1) / kAlign * kAlign;
  std::byte* bytes = buffer.Get(rounded);
  const ssize_t got = ::pread(fd_.get(), bytes, direct_ ? rounded : wanted, from);
  if (got < static_cast<ssize_t>(wanted)) return ReadFailed(got);
  ByteReader reader(AsText({bytes + skip, std::size_t{count} * 4}));
  checksums_.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) checksums_.push_back(reader.U32());
  loaded_ = true;
  return true;
}

// What was read says what it was read for, whatever has been found out about `fine_` since.
bool OpenBlock::ChecksCoarsely(std::uint64_t offset, std::uint64_t end) const {
  return fine_.empty() || (offset % kPiece == 0 && (end % kPiece == 0 || end == block_.length));
}

bool OpenBlock::VerifiesAtOnce(const Span& span) const {
  const std::uint64_t end =
      std::min<std::uint64_t>(std::uint64_t{span.offset} + span.size, block_.length);
  return !has_checksums_ || loaded_ || !ChecksCoarsely(span.offset, end) ||
         verified_->Test(span.offset, end);
}

// `parts` follow one another from `offset` on; a piece may lie across several of them.
std::optional<std::string> OpenBlock::WrongIn(std::uint32_t offset,
                                              std::span<const std::span<const std::byte>> parts) {
  if (!has_checksums_) return "";
  std::uint64_t size = 0;
  for (const auto& part : parts) size += part.size();
  size = std::min<std::uint64_t>(size, block_.length - offset);
  if (level_ == ChecksumLevel::kFull && (offset != 0 || size != block_.length)) return "";
  const std::uint64_t end = offset + size;
  std::size_t part = 0, inside = 0;
  const auto skip = [&](std::uint64_t bytes, auto&& use) {
    while (bytes > 0) {
      const std::size_t n = std::min<std::uint64_t>(bytes, parts[part].size() - inside);
      use(parts[part].subspan(inside, n));
      bytes -= n;
      inside += n;
      if (inside == parts[part].size()) ++part, inside = 0;
    }
  };
  const bool coarse = ChecksCoarsely(offset, end);
  const std::uint32_t step = coarse ? kPiece : kFine;
  const std::uint32_t first = (offset + step - 1) / step;
  if (std::uint64_t{first} * step >= end) return "";
  skip(std::uint64_t{first} * step - offset, [](auto) {});
  for (std::uint32_t piece = first; std::uint64_t{piece} * step < end; ++piece) {
    const std::uint64_t begin = std::uint64_t{piece} * step;
    const std::uint64_t stop = std::min<std::uint64_t>(begin + step, block_.length);
    if (stop > end) break;  // the read covers only a part of this piece
    if (verified_->Test(begin, stop)) {
      skip(stop - begin, [](auto) {});
      continue;
    }
    if (coarse && !LoadChecksums()) return std::nullopt;
    std::uint32_t crc = 0;
    skip(stop - begin, [&](std::span<const std::byte> bytes) { crc = Crc32c(AsText(bytes), crc); });
    if (!coarse && crc != fine_[piece]) {
      // Either may be damaged; the next read is checked with what the file itself holds.
      fine_good_ = false;
      return std::nullopt;
    }
    bool right = true;
    if (coarse) {
      MutexLock lock(mutex_);
      right = crc == checksums_[piece];
    }
    if (!right) return fmt::format("the checksum of its 32 KiB piece {} differs", piece);
    verified_->Set(begin, stop);
  }
  return "";
}

bool OpenBlock::Accept(std::uint32_t offset, std::span<const std::span<const std::byte>> parts) {
  const auto wrong = WrongIn(offset, parts);
  if (!wrong) return false;
  return wrong->empty() || Corrupt(*wrong);
}

bool OpenBlock::Verify(std::uint32_t offset, std::span<const std::byte> bytes) {
  const std::span<const std::byte> parts[] = {bytes};
  return WrongIn(offset, parts) == "";
}

// Only what is read besides `out` goes through other memory.
bool OpenBlock::ReadPlain(const Span& span, std::uint32_t offset, std::span<std::byte> out) {
  std::array<std::byte, kPiece> head, tail;
  const std::uint32_t before = offset - span.offset;
  const std::uint32_t after =
      span.offset + span.size - offset - static_cast<std::uint32_t>(out.size());
  const iovec vectors[3] = {{head.data(), before}, {out.data(), out.size()}, {tail.data(), after}};
  const ssize_t got = ::preadv(fd_.get(), vectors, 3, span.offset);
  if (got != static_cast<ssize_t>(span.size)) return ReadFailed(got);
  const std::span<const std::byte> parts[] = {
      {head.data(), before}, {out.data(), out.size()}, {tail.data(), after}};
  return Accept(span.offset, parts);
}

bool OpenBlock::ReadAligned(const Span& span, std::uint32_t offset, std::span<std::byte> out) {
  const std::size_t rounded = span.size;  // ToRead names whole pages
  const std::size_t inside = std::min<std::size_t>(rounded, block_.length - span.offset);
  const bool in_place = span.offset == offset && out.size() == rounded &&
                        reinterpret_cast<std::uintptr_t>(out.data()) % kAlign == 0;
  static thread_local AlignedBuffer kept;
  AlignedBuffer large;
  std::byte* memory = out.data();
  if (!in_place) memory = rounded <= kKeptBuffer ? kept.Get(kKeptBuffer) : large.Get(rounded);
  const ssize_t got = ::pread(fd_.get(), memory, rounded, span.offset);
  if (got < static_cast<ssize_t>(inside)) return ReadFailed(got);
  const std::span<const std::byte> parts[] = {{memory, inside}};
  if (!Accept(span.offset, parts)) return false;
  if (!in_place) std::memcpy(out.data(), memory + (offset - span.offset), out.size());
  return true;
}

bool OpenBlock::ReadSpan(std::uint32_t offset, std::span<std::byte> out) {
  const Span span = ToRead(offset, static_cast<std::uint32_t>(out.size()));
  return direct_ ? ReadAligned(span, offset, out) : ReadPlain(span, offset, out);
}

bool OpenBlock::Read(std::uint32_t offset, std::span<std::byte> out) {
  if (std::uint64_t{offset} + out.size() > block_.length) return false;
  if (out.empty()) return true;
  const auto stamp = BeginRead();
  const bool fine = UsesFine();
  if (ReadSpan(offset, out)) return true;
  return fine && !UsesFine() && good() && ReadSpan(offset, out);
}

}  // namespace paddleop::volume::cache
