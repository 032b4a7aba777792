#include "standalone/node/kubelet/pod_record.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/posix.h"

namespace paddleop::standalone::node {

using api::Json;

Result<void> WriteRecord(const std::string& directory, const PodRecord& record) {
  const Json json = {{"namespace", record.key.ns},
                     {"name", record.key.name},
                     {"uid", record.uid},
                     {"node", record.node},
                     {"ip", record.ip},
                     {"hostNetwork", record.host_network},
                     {"startTime", api::FormatTime(record.start_time)},
                     {"failureReason", record.failure_reason},
                     {"failureMessage", record.failure_message}};
  RETURN_IF_ERROR(MakeDirectories(directory, 0711));
  return WriteFileAtomic(directory + "/pod.json", api::DumpJson(json), 0640);
}

Result<PodRecord> ReadRecord(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(directory + "/pod.json"));
  ASSIGN_OR_RETURN(const Json json, api::ParseJson(text));
  if (!json.is_object()) return Fail(Code::kCorrupt, "{}/pod.json is no object", directory);
  PodRecord out;
  out.key = {json.value("namespace", ""), json.value("name", "")};
  out.uid = json.value("uid", "");
  out.node = json.value("node", "");
  out.ip = json.value("ip", "");
  out.host_network = json.value("hostNetwork", false);
  if (const auto time = api::ParseTime(json.value("startTime", ""))) out.start_time = *time;
  out.failure_reason = json.value("failureReason", "");
  out.failure_message = json.value("failureMessage", "");
  return out;
}

std::vector<PodRecord> ReadRecords(const std::string& data_dir) {
  std::vector<PodRecord> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(data_dir + "/pods", error)) {
    if (auto record = ReadRecord(entry.path().string())) out.push_back(*std::move(record));
  }
  return out;
}

}  // namespace paddleop::standalone::node
