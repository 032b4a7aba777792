#include <fmt/format.h>

#include <charconv>

#include "base/posix.h"
#include "runtime/protocol/paths.h"
#include "runtime/server/juicefs_engine.h"
#include "runtime/server/samplefs_engine.h"
#include "runtime/server/server.h"
#include "runtime/server/token_store.h"
#include "runtime/server/volume_files.h"
#include "samplefs/tool.h"
#include "volume/cache/cache_options.h"

namespace paddleop::cmd {
namespace {

struct RuntimeFlags {
  std::string set;
  std::string ns;
  std::string pod_name;
  std::int64_t index = -1;
  std::string listen = ":7716";
  std::string auth_dir;
  std::string volume_dir;
  std::vector<std::string> cache_dirs;
  std::vector<std::string> cache_sizes;
  std::vector<std::string> free_space_ratios;
  std::vector<std::string> cache_levels;
  std::vector<std::string> source_dirs;
  std::string state_dir;
  std::string driver = "samplefs";
  std::string data_dir;
  std::string juicefs = "juicefs";
  std::int64_t peer_timeout = 300;
};

// imagenet-runtime-2 -> 2
Result<std::uint32_t> IndexOf(const RuntimeFlags& flags) {
  if (flags.index >= 0) return static_cast<std::uint32_t>(flags.index);
  const std::string pod = flags.pod_name.empty() ? GetEnv("POD_NAME") : flags.pod_name;
  const auto dash = pod.rfind('-');
  std::uint32_t index = 0;
  const char* const begin = pod.data() + (dash == std::string::npos ? 0 : dash + 1);
  const char* const end = pod.data() + pod.size();
  const auto [last, error] = std::from_chars(begin, end, index);
  if (dash == std::string::npos || error != std::errc() || last != end) {
    return paddleop::Fail(Code::kInvalid,
                          "--pod-name is \"{}\"; it must end with -N, or give --index", pod);
  }
  return index;
}

// HOST:PORT, [V6]:PORT or :PORT.
Result<std::pair<std::string, std::uint16_t>> ParseListen(const std::string& text) {
  const auto colon = text.rfind(':');
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  if (colon != std::string::npos) {
    const auto [last, error] = std::from_chars(text.data() + colon + 1, end, port);
    if (error == std::errc() && last == end && colon + 1 < text.size()) {
      std::string host = text.substr(0, colon);
      if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
      return std::pair(host.empty() ? std::string("0.0.0.0") : host, port);
    }
  }
  return paddleop::Fail(Code::kInvalid, "--listen is \"{}\"; it must be HOST:PORT or :PORT", text);
}

// MEDIUM,PATHS,MiB: the levels of a SampleSet's cache.
Result<volume::CacheOptions> CacheOf(const RuntimeFlags& flags) {
  std::vector<std::string> directories = flags.cache_dirs;
  std::vector<std::string> sizes = flags.cache_sizes;
  for (const std::string& level : flags.cache_levels) {
    const auto first = level.find(',');
    const auto last = level.rfind(',');
    if (first == std::string::npos || first == last) {
      return paddleop::Fail(Code::kInvalid, "--cache-level is \"{}\"; it must be MEDIUM,PATHS,MiB",
                            level);
    }
    directories.push_back(level.substr(first + 1, last - first - 1));
    sizes.push_back(level.substr(last + 1));
  }
  if (directories.empty()) {
    return paddleop::Fail(Code::kInvalid, "--cache-dir or --cache-level is needed");
  }
  return volume::ParseCacheOptions(directories, sizes, flags.free_space_ratios);
}

Result<runtime::ServerOptions> OptionsOf(Tool& tool, const RuntimeFlags& flags,
                                         runtime::TokenStore& tokens) {
  runtime::ServerOptions options;
  ASSIGN_OR_RETURN(options.index, IndexOf(flags));
  ASSIGN_OR_RETURN(const auto listen, ParseListen(flags.listen));
  options.address = listen.first;
  options.port = listen.second;
  options.auth_dir = flags.auth_dir;
  options.peer_patience = std::chrono::seconds(flags.peer_timeout);
  ASSIGN_OR_RETURN(const auto cache, CacheOf(flags));
  if (flags.driver == "samplefs") {
    if (flags.volume_dir.empty())
      return paddleop::Fail(Code::kInvalid, "--volume-dir is needed with driver samplefs");
    runtime::SamplefsEngineOptions engine{
        .index = options.index,
        .volume_dir = flags.volume_dir,
        .cache = cache,
        .source_dirs = flags.source_dirs,
        .state_dir = flags.state_dir,
        .ca_file = flags.auth_dir + "/" + std::string(runtime::kCaFile),
        .token = [&tokens] { return tokens.Current(); }};
    options.open = [&tool, engine](const Context& ctx) {
      return runtime::OpenSamplefsEngine(ctx, engine, tool.log(), tool.metrics());
    };
  } else if (flags.driver == "juicefs") {
    if (flags.data_dir.empty())
      return paddleop::Fail(Code::kInvalid, "--data-dir is needed with driver juicefs");
    runtime::JuicefsEngineOptions engine{.set = flags.set,
                                         .mount = flags.data_dir,
                                         .program = flags.juicefs,
                                         .source_dirs = flags.source_dirs,
                                         .state_dir = flags.state_dir};
    for (const auto& directory : cache.directories) {
      engine.cache_directories.push_back(directory.path);
    }
    options.open = [&tool, engine](const Context& ctx) {
      return runtime::OpenJuicefsEngine(ctx, engine, tool.log());
    };
  } else {
    return paddleop::Fail(Code::kInvalid, "--driver is \"{}\"; it must be samplefs or juicefs",
                          flags.driver);
  }
  return options;
}

// The volume's keys as one value, to see whether they changed.
std::string Fingerprint(const RuntimeFlags& flags) {
  auto files = runtime::VolumeFiles::Read(flags.volume_dir);
  if (!files) return {};
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", files->meta_url, files->name, files->storage,
                     files->bucket, files->access_key, files->secret_key.Reveal(),
                     files->session_token.Reveal());
}

int RunRuntime(Tool& tool, const RuntimeFlags& flags) {
  if (flags.auth_dir.empty()) {
    return tool.Fail(Status(Code::kInvalid, "--auth-dir is needed"));
  }
  auto tokens = runtime::TokenStore::Open(flags.auth_dir + "/" + std::string(runtime::kTokenFile),
                                          tool.log());
  if (!tokens) return tool.Fail(tokens.error());
  auto options = OptionsOf(tool, flags, **tokens);
  if (!options) return tool.Fail(options.error());
  auto server = runtime::Server::Start(*std::move(options), tool.log(), tool.metrics());
  if (!server) return tool.Fail(server.error());
  tool.log().Info(tool.ctx(), "runtime listens", {{"port", (*server)->port()}});
  const std::string keys = Fingerprint(flags);
  while (Clock::System().SleepFor(tool.ctx(), std::chrono::seconds(5))) {
    // Somebody starts the runtime again, with the new keys; jobs go on where they were.
    const std::string now = Fingerprint(flags);
    if (flags.driver == "samplefs" && !now.empty() && now != keys) {
      (*server)->Stop();
      return tool.Fail(Status(Code::kUnavailable, "the volume's Secret changed; start me again"));
    }
  }
  (*server)->Stop();
  return kExitDone;
}

}  // namespace

void AddRuntime(Command& program, Tool& tool) {
  auto flags = std::make_shared<RuntimeFlags>();
  Command command = program.AddCommand("runtime", "serve one partition of a SampleSet",
                                       [flags, &tool] { return RunRuntime(tool, *flags); });
  command.AddOption("--set", &flags->set, "name of the SampleSet");
  command.AddOption("--namespace", &flags->ns, "its namespace");
  command.AddOption("--pod-name", &flags->pod_name,
                    "name of this pod, ending with the partition's index; or POD_NAME");
  command.AddOption("--index", &flags->index, "index of the partition, instead of the pod's name");
  command.AddOption("--listen", &flags->listen, "address to serve on");
  command.AddOption("--auth-dir", &flags->auth_dir,
                    "directory with token, ca.crt, tls.crt and tls.key");
  command.AddOption("--volume-dir", &flags->volume_dir,
                    "directory with name, storage, bucket, metaurl, access-key, secret-key");
  command.AddOption("--cache-dir", &flags->cache_dirs,
                    "cache directories, D or D:D, one per level");
  command.AddOption("--cache-size", &flags->cache_sizes, "MiB of each level");
  command.AddOption("--cache-level", &flags->cache_levels,
                    "a level as MEDIUM,PATHS,MiB, instead of the two above");
  command.AddOption("--free-space-ratio", &flags->free_space_ratios,
                    "share of the disk that stays free");
  command.AddOption("--source-dir", &flags->source_dirs,
                    "local sources (file://, sqlite3://) may lie below this directory");
  command.AddOption("--state-dir", &flags->state_dir,
                    "where jobs are kept; default: in the first cache directory");
  command.AddOption("--driver", &flags->driver, "samplefs, or juicefs for the official client");
  command.AddOption("--data-dir", &flags->data_dir, "driver juicefs: where the volume is mounted");
  command.AddOption("--juicefs", &flags->juicefs, "driver juicefs: the official program");
  command.AddOption("--peer-timeout", &flags->peer_timeout,
                    "seconds after which a partition that does not answer has failed its part");
  tool.AddCommonOptions(command);
}

}  // namespace paddleop::cmd
