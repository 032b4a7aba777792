#pragma once

#include <string>
#include <vector>

#include "api/meta/object_meta.h"
#include "api/meta/time.h"

namespace paddleop::standalone::node {

// What an agent writes down of a pod it runs (pods/UID/pod.json), for the one after it.
struct PodRecord {
  api::ObjectKey key;
  std::string uid;
  std::string node;
  std::string ip;
  bool host_network = false;
  api::Time start_time{};
  std::string failure_reason;
  std::string failure_message;
};

Result<void> WriteRecord(const std::string& directory, const PodRecord& record);
Result<PodRecord> ReadRecord(const std::string& directory);
// Every pod that an agent has left in this data directory.
std::vector<PodRecord> ReadRecords(const std::string& data_dir);

}  // namespace paddleop::standalone::node
