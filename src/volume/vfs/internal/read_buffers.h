#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace paddleop::volume {

// Memory for reads of cached blocks, aligned for O_DIRECT. It lies in huge pages where the kernel
// has them: a direct read must find, hold and release every page it goes to, 28 small ones for a
// sample of 110 KB, or one huge one. Pieces lie side by side and a read takes as many as it needs,
// the lowest ones that are free, so that only as much is touched as reads are under way.
//
// Thread-safe.
class ReadBuffers {
 public:
  class Lease {
   public:
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();

    std::span<std::byte> bytes() const { return bytes_; }

   private:
    friend class ReadBuffers;
    Lease(ReadBuffers* owner, std::uint64_t pieces, std::span<std::byte> bytes)
        : owner_(owner), pieces_(pieces), bytes_(bytes) {}

    ReadBuffers* owner_;
    std::uint64_t pieces_;
    std::span<std::byte> bytes_;
  };

  static constexpr std::size_t kPiece = 128U << 10;
  static constexpr std::size_t kPieces = 64;
  static constexpr std::size_t kMost = kPieces * kPiece;

  static std::size_t PiecesFor(std::size_t size) {
    return std::max<std::size_t>(1, (size + kPiece - 1) / kPiece);
  }

  ReadBuffers();
  ~ReadBuffers();  // after every lease
  ReadBuffers(const ReadBuffers&) = delete;
  ReadBuffers& operator=(const ReadBuffers&) = delete;

  // Nothing if so much is not free in a row.
  std::optional<Lease> TryTake(std::size_t size);

 private:
  std::byte* arena_;
  std::atomic<std::uint64_t> used_{0};  // a bit for each piece
};

}  // namespace paddleop::volume
