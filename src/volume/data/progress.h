#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace paddleop::volume::data {

// How far an import is. Every file listed is counted once: copied, skipped or failed.
struct ImportProgress {
  std::uint64_t listed_files = 0;  // that pass the filters, and are this part's
  std::uint64_t listed_bytes = 0;
  bool listing = true;  // false: the totals above are final

  std::uint64_t copied_files = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t skipped_files = 0;  // already there
  std::uint64_t skipped_bytes = 0;
  std::uint64_t failed_files = 0;
  std::uint64_t failed_bytes = 0;

  std::uint64_t excluded_files = 0;  // left out by filters, or other parts'
  std::uint64_t made_directories = 0;
  std::uint64_t deleted_files = 0;         // from the volume (--delete-dst), directories included
  std::uint64_t deleted_source_files = 0;  // --delete-src
  std::uint64_t retried_files = 0;         // changed while they were read
  std::uint64_t uploaded_objects = 0;
  std::uint64_t uploaded_bytes = 0;
  std::uint64_t read_bytes = 0;  // from the source, those on their way included

  std::chrono::milliseconds elapsed{0};

  std::uint64_t done_files() const { return copied_files + skipped_files + failed_files; }
  double files_per_second() const;
  double bytes_per_second() const;
  // Share of the bytes (or files, if there are no bytes) listed so far that are done.
  double percent() const;
  // Absent until the listing has ended and something was copied.
  std::optional<std::chrono::seconds> Remaining() const;
};

// One line for people: "12,345 of 20,000 files, 1.2 GiB of 2.1 GiB, 3,210 files/s, 340 MiB/s, 0:06
// left".
std::string ProgressLine(const ImportProgress& progress);
// "[=====>    ] 57 %" and the line, cut to `width` columns.
std::string ProgressBar(const ImportProgress& progress, std::size_t width);

}  // namespace paddleop::volume::data
