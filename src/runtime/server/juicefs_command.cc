#include "runtime/server/juicefs_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "sampler/distributed_batch_sampler.h"

namespace paddleop::runtime {
namespace {

// The variables that stores of the official client fall back to.
constexpr std::pair<const char*, const char*> kKeyVariables[] = {
    {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
    {"MINIO_ACCESS_KEY", "MINIO_SECRET_KEY"},
    {"BDCLOUD_ACCESS_KEY", "BDCLOUD_SECRET_KEY"},
    {"ALICLOUD_ACCESS_KEY_ID", "ALICLOUD_ACCESS_KEY_SECRET"},
    {"COS_SECRETID", "COS_SECRETKEY"},
    {"HWCLOUD_ACCESS_KEY", "HWCLOUD_SECRET_KEY"},
    {"QINGSTOR_ACCESS_KEY_ID", "QINGSTOR_SECRET_ACCESS_KEY"},
};

void Flag(std::vector<std::string>& argv, const char* name, bool set) {
  if (set) argv.push_back(fmt::format("--{}", name));
}
void Text(std::vector<std::string>& argv, const char* name, const std::string& value) {
  if (!value.empty()) argv.push_back(fmt::format("--{}={}", name, value));
}
void Number(std::vector<std::string>& argv, const char* name, std::int32_t value) {
  if (value != 0) argv.push_back(fmt::format("--{}={}", name, value));
}

std::optional<std::uint64_t> WholeNumber(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

ChildCommand JuicefsSync(const std::string& program, const std::string& mount,
                         const api::SyncOptions& options, const JobSource& source) {
  ChildCommand command{.argv = {program, "sync"}};
  auto& argv = command.argv;
  Text(argv, "start", options.start);
  Text(argv, "end", options.end);
  Number(argv, "threads", options.threads);
  Number(argv, "http-port", options.http_port);
  Flag(argv, "update", options.update);
  Flag(argv, "force-update", options.force_update);
  Flag(argv, "perms", options.perms);
  Flag(argv, "dirs", options.dirs);
  Flag(argv, "dry", options.dry);
  Flag(argv, "delete-src", options.delete_src);
  Flag(argv, "delete-dst", options.delete_dst);
  Text(argv, "include", options.include);
  Text(argv, "exclude", options.exclude);
  Number(argv, "bwlimit", options.bwlimit);
  Flag(argv, "no-https", options.no_https);
  argv.emplace_back("--no-color");
  // Both sides are directories: the client takes a name without a slash for a prefix of names.
  argv.push_back(source.uri.ends_with('/') ? source.uri : source.uri + "/");
  std::string destination = mount + "/" + source.path;
  if (!destination.ends_with('/')) destination += '/';
  argv.push_back(std::move(destination));
  if (!source.credentials.empty()) {
    for (const auto& [access, secret] : kKeyVariables) {
      command.environment.push_back(fmt::format("{}={}", access, source.credentials.access_key));
      command.environment.push_back(
          fmt::format("{}={}", secret, source.credentials.secret_key.Reveal()));
    }
    if (!source.credentials.session_token.empty()) {
      command.environment.push_back("AWS_SESSION_TOKEN=" +
                                    source.credentials.session_token.Reveal());
    }
  }
  return command;
}

api::ProgressCount ReadSyncSummary(std::string_view output) {
  api::ProgressCount count;
  const auto at = output.rfind("Found: ");
  if (at == std::string_view::npos) return count;
  const std::string_view line = output.substr(at, output.find('\n', at) - at);
  const auto number = [&](std::string_view label) {
    std::int64_t value = 0;
    const auto found = line.find(label);
    if (found == std::string_view::npos) return value;
    std::string digits;
    for (const char c : line.substr(found + label.size())) {
      if (c >= '0' && c <= '9') {
        digits += c;
      } else if (c != ',' && (c != ' ' || !digits.empty())) {
        break;
      }
    }
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  };
  count.total = number("Found: ");
  count.done = number("copied: ");
  count.skipped = number("skipped: ");
  count.failed = number("failed: ");
  return count;
}

std::optional<TreeTotals> ReadInfo(std::string_view output) {
  const auto value = [&](std::string_view label) -> std::string_view {
    const auto at = output.find(label);
    if (at == std::string_view::npos) return {};
    const auto begin = at + label.size();
    return output.substr(begin, output.find('\n', begin) - begin);
  };
  const auto files = WholeNumber(value("\n  files: "));
  // "14.65 KiB (15000 Bytes)", or "0 Bytes".
  std::string_view length = value("\n length: ");
  if (const auto bracket = length.find('('); bracket != std::string_view::npos)
    length.remove_prefix(bracket + 1);
  const auto bytes = WholeNumber(length.substr(0, length.find(' ')));
  if (!files || !bytes) return std::nullopt;
  return TreeTotals{.files = *files, .bytes = *bytes};
}

std::uint64_t CachedBlockSize(std::string_view file_name) {
  const auto last = file_name.rfind('_');
  if (last == std::string_view::npos || last == 0) return 0;
  const auto first = file_name.find('_');
  if (first == last || !WholeNumber(file_name.substr(0, first))) return 0;
  return WholeNumber(file_name.substr(last + 1)).value_or(0);
}

Result<std::vector<std::string>> ShareOf(const std::vector<std::string>& files,
                                         const api::WarmupOptions& options, std::uint32_t partition,
                                         std::uint32_t partitions) {
  const auto ranks =
      static_cast<std::uint32_t>(options.ranks.value_or(static_cast<std::int32_t>(partitions)));
  const bool random = options.strategy_name == "random";
  std::set<std::uint64_t> mine;
  if (!random && !options.batch_size) {
    const auto [begin, end] = sampler::ContiguousShare(files.size(), partitions, partition);
    for (std::uint64_t i = begin; i < end; ++i) mine.insert(i);
  } else if (!files.empty()) {
    const sampler::SamplerOptions order{
        .samples = files.size(),
        .ranks = ranks,
        .batch_size = static_cast<std::uint32_t>(options.batch_size.value_or(1)),
        .shuffle = options.shuffle.value_or(random),
        .drop_last = options.drop_last.value_or(false),
        .epoch = static_cast<std::uint32_t>(options.epoch.value_or(0))};
    ASSIGN_OR_RETURN(const auto orders, sampler::AllRankOrders(order));
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (sampler::PartitionOfRank(rank, ranks, partitions) != partition) continue;
      mine.insert(orders[rank].begin(), orders[rank].end());
    }
  }
  std::vector<std::string> share;
  share.reserve(mine.size());
  for (const std::uint64_t i : mine) share.push_back(files[i]);
  return share;
}

}  // namespace paddleop::runtime
