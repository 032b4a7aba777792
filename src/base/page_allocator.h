#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <limits>
#include <new>

namespace paddleop {

// For arrays that grow large, live long or go at once: from 1 MiB on they are mapped, so that what
// is freed is the system's again. The heap would keep it: the C library raises its own limit for
// mapping with every large block that is freed.
template <class T>
class PageAllocator {
 public:
  using value_type = T;

  PageAllocator() = default;
  template <class U>
  PageAllocator(const PageAllocator<U>& /*other*/) {}  // NOLINT: converts, as allocators must

  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
    const std::size_t bytes = count * sizeof(T);
    if (bytes < kMapped) return static_cast<T*>(::operator new(bytes));
    void* const pages =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    return static_cast<T*>(pages);
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    const std::size_t bytes = count * sizeof(T);
    if (bytes < kMapped) {
      ::operator delete(memory);
    } else {
      ::munmap(memory, bytes);
    }
  }
  template <class U>
  bool operator==(const PageAllocator<U>& /*other*/) const {
    return true;
  }

 private:
  static constexpr std::size_t kMapped = 1 << 20;
};

}  // namespace paddleop
