// Where a Cache Runtime Server answers. All over TLS with `Authorization: Bearer <token>`, except
// the health checks, which need no token.
//
//   POST /upload/<kind>Options      header `filename`: the job's name; body: JobRequest. The answer
//                                   is the job's JobResult.
//        ... ?terminate=1           first cancels every unfinished job; with `filename: terminate`
//                                   nothing is posted
//   GET  /<kind>Options/<name>      the request as it was posted, without credentials
//   GET  /<kind>Result/<name>       JobResult; 404 if the runtime does not know the job
//   GET  /jobs                      all JobResults, newest first
//   POST /jobs/<name>/cancel        JobResult
//   GET  /cacheStatus/cacheInfo.json  CacheInfo
//   GET, PUT /peers                 PeerTable
//   POST /purge                     ends all jobs and drops everything that this runtime keeps on
//   its
//                                   node for the set: cached blocks, pins, journal; the volume
//                                   stays
//   GET  /blocks/<key>              peers: bytes of a block; volume/peer says how
//   GET  /healthz /readyz /metrics
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/protocol/job.h"

namespace paddleop::runtime {

inline constexpr std::uint16_t kDefaultPort = 7716;

inline constexpr std::string_view kJobNameHeader = "filename";
inline constexpr std::string_view kTerminateName = "terminate";
inline constexpr std::string_view kUploadPrefix = "/upload/";
inline constexpr std::string_view kJobsPath = "/jobs";
inline constexpr std::string_view kCacheInfoPath = "/cacheStatus/cacheInfo.json";
inline constexpr std::string_view kPeersPath = "/peers";
inline constexpr std::string_view kPurgePath = "/purge";

// Files of the Secret `<set>-runtime-auth`, as the runtime finds them in its --auth-dir.
inline constexpr std::string_view kTokenFile = "token";
inline constexpr std::string_view kPreviousTokenFile = "token.previous";  // may be missing
inline constexpr std::string_view kCaFile = "ca.crt";
inline constexpr std::string_view kCertificateFile = "tls.crt";
inline constexpr std::string_view kKeyFile = "tls.key";

std::string UploadPath(JobKind kind);                          // /upload/syncOptions
std::string OptionsPath(JobKind kind, std::string_view name);  // /syncOptions/<name>
std::string ResultPath(JobKind kind, std::string_view name);   // /syncResult/<name>
std::string CancelPath(std::string_view name);                 // /jobs/<name>/cancel

// True for a UUID in lower case: the only form of a job's name, so that a name is also a safe file
// name.
bool IsJobName(std::string_view name);

// <pod>.<set>-runtime-service.<namespace>.svc: the name to expect in a runtime's certificate.
std::string RuntimeTlsName(std::string_view set, std::string_view ns, std::uint32_t index);

}  // namespace paddleop::runtime
