#include "runtime/server/job_journal.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/posix.h"
#include "runtime/protocol/paths.h"

namespace paddleop::runtime {
namespace {

constexpr std::string_view kSuffix = ".json";

Result<JobRecord> ReadRecord(const std::string& path, const std::string& name) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(const api::Json json, api::ParseJson(text));
  if (!json.is_object() || !json.contains("request") || !json.contains("result")) {
    return Fail(Code::kCorrupt, "no request or no result");
  }
  JobRecord record;
  ASSIGN_OR_RETURN(record.result, JobResultFromJson(json["result"]));
  if (record.result.name != name) return Fail(Code::kCorrupt, "the name inside is another");
  ASSIGN_OR_RETURN(record.request, JobRequestFromJson(json["request"], record.result.kind, name));
  record.number = json.value("number", std::uint64_t{0});
  record.had_credentials = json.value("hadCredentials", false);
  return record;
}

}  // namespace

Result<JobJournal> JobJournal::Open(std::string directory) {
  RETURN_IF_ERROR(MakeDirectories(directory, 0700));
  return JobJournal(std::move(directory));
}

Result<std::vector<JobRecord>> JobJournal::Load(std::vector<std::string>* damaged) {
  std::vector<JobRecord> records;
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    files.push_back(entry.path());
  }
  if (error) return std::unexpected(ErrnoStatus(error.value(), "read directory " + directory_));
  for (const auto& path : files) {
    const std::string file = path.filename().string();
    if (!file.ends_with(kSuffix)) continue;
    const std::string name = file.substr(0, file.size() - kSuffix.size());
    if (!IsJobName(name)) continue;
    auto record = ReadRecord(path.string(), name);
    if (record) {
      records.push_back(*std::move(record));
      continue;
    }
    if (damaged != nullptr) damaged->push_back(name + ": " + record.error().message());
    std::filesystem::rename(path, directory_ + "/" + name + ".damaged", error);
  }
  std::ranges::sort(records, {}, &JobRecord::number);
  return records;
}

Result<void> JobJournal::Save(const JobRecord& record) {
  const api::Json json = {{"request", ToPublicJson(record.request)},
                          {"result", ToJson(record.result)},
                          {"number", record.number},
                          {"hadCredentials", record.had_credentials}};
  return WriteFileAtomic(FileOf(record.request.name), api::DumpJson(json), 0600);
}

Result<void> JobJournal::Remove(const std::string& name) {
  if (::unlink(FileOf(name).c_str()) != 0 && errno != ENOENT) {
    return ErrnoFail("remove {}", FileOf(name));
  }
  return {};
}

}  // namespace paddleop::runtime
