// Names of what this room counts; docs/metrics.md lists them for users.
#pragma once

namespace paddleop::volume::metric {

// Reads that mounts of this node put to the runtime: label from is cache, peer or store.
inline constexpr char kPeerReads[] = "paddleop_peer_reads_total";
inline constexpr char kPeerReadsHelp[] = "Reads of mounts of this node, by where they were served.";
inline constexpr char kPeerReadBytes[] = "paddleop_peer_read_bytes_total";
inline constexpr char kPeerReadBytesHelp[] = "Bytes of those reads.";
// What other partitions read here.
inline constexpr char kPeerGivenBytes[] = "paddleop_peer_given_bytes_total";
inline constexpr char kPeerGivenBytesHelp[] = "Bytes that other partitions read here.";
// Blocks fetched whole, for warm-up or for readers: label from is cache, peer or store.
inline constexpr char kPeerFetched[] = "paddleop_peer_blocks_fetched_total";
inline constexpr char kPeerFetchedHelp[] = "Whole blocks fetched, by where they came from.";

}  // namespace paddleop::volume::metric
