// Names of this room's metrics; docs/metrics.md lists them.
#pragma once

namespace paddleop::volume {

// Label of the first two: `tier` is memory, disk or store.
inline constexpr char kDataSetReads[] = "paddleop_dataset_reads_total";
inline constexpr char kDataSetReadsHelp[] = "Reads of blocks in data-set mode, by where they were.";
inline constexpr char kDataSetBytes[] = "paddleop_dataset_read_bytes_total";
inline constexpr char kDataSetBytesHelp[] = "Bytes of those reads.";
// Label `result` is started, useful or wasted.
inline constexpr char kPrefetchBlocks[] = "paddleop_dataset_prefetch_blocks_total";
inline constexpr char kPrefetchBlocksHelp[] =
    "Blocks fetched ahead of use, those that were read later, and those that left unread.";
inline constexpr char kPrefetchWindow[] = "paddleop_dataset_prefetch_window_blocks";
inline constexpr char kPrefetchWindowHelp[] = "How many blocks are fetched ahead after a miss.";
inline constexpr char kFetchErrors[] = "paddleop_dataset_fetch_errors_total";
inline constexpr char kFetchErrorsHelp[] = "Blocks that could not be had from the store.";
inline constexpr char kReadsGivenUp[] = "paddleop_dataset_cache_reads_given_up_total";
inline constexpr char kReadsGivenUpHelp[] =
    "Reads that a cache directory did not answer in time and the store did.";
inline constexpr char kDataSetFiles[] = "paddleop_dataset_inodes";
inline constexpr char kDataSetFilesHelp[] = "Inodes of the data set's tree in memory.";
inline constexpr char kDataSetMemory[] = "paddleop_dataset_tree_bytes";
inline constexpr char kDataSetMemoryHelp[] = "Memory of the data set's tree.";
inline constexpr char kRefreshes[] = "paddleop_dataset_refreshes_total";
inline constexpr char kRefreshesHelp[] = "How often the tree was loaded again.";

}  // namespace paddleop::volume
