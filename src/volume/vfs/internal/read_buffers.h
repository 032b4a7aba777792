#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace paddleop::volume {

// Memory for reads of cached blocks, aligned for O_DIRECT. It lies in huge pages where the kernel
// has them: a direct read must find, hold and release every page it goes to, 28 small ones for a
// sample of 110 KB, or one huge one. Pieces lie side by side and a read takes as many as it needs,
// the lowest ones that are free, so that only as much is touched as reads are under way.
//
// Thread-safe. What does not fit gets memory of its own.
class ReadBuffers {
 public:
  class Lease {
   public:
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&&) = delete;
    ~Lease();

    std::span<std::byte> bytes() const { return bytes_; }

   private:
    friend class ReadBuffers;
    Lease(ReadBuffers* owner, std::uint64_t pieces, std::span<std::byte> bytes)
        : owner_(owner), pieces_(pieces), bytes_(bytes) {}

    ReadBuffers* owner_;
    std::uint64_t pieces_;  // 0: memory of its own
    std::span<std::byte> bytes_;
  };

  static constexpr std::size_t kPiece = 128U << 10;

  ReadBuffers();
  ~ReadBuffers();  // after every lease
  ReadBuffers(const ReadBuffers&) = delete;
  ReadBuffers& operator=(const ReadBuffers&) = delete;

  Lease Take(std::size_t size);

 private:
  std::byte* arena_;
  std::atomic<std::uint64_t> used_{0};  // a bit for each piece
};

}  // namespace paddleop::volume
