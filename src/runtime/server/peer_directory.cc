#include "runtime/server/peer_directory.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/posix.h"

namespace paddleop::runtime {

Result<std::unique_ptr<PeerDirectory>> PeerDirectory::Open(PeerDirectoryOptions options) {
  std::unique_ptr<PeerDirectory> directory(new PeerDirectory(std::move(options)));
  auto text = ReadFile(directory->options_.file);
  if (!text && IsNotFound(text.error())) return directory;
  if (!text) return std::unexpected(std::move(text).error());
  auto json = api::ParseJson(*text);
  if (!json) return directory;  // damaged: the controller sends it again, since we report none
  if (auto table = PeerTableFromJson(*json)) {
    MutexLock lock(directory->mutex_);
    directory->table_ = *std::move(table);
  }
  return directory;
}

Result<void> PeerDirectory::Put(const PeerTable& table) {
  RETURN_IF_ERROR(Validate(table));
  MutexLock lock(mutex_);
  if (table.generation < table_.generation) {
    return Fail(Code::kConflict, "the table of peers has generation {} here, {} was sent",
                table_.generation, table.generation);
  }
  if (table == table_) return {};
  RETURN_IF_ERROR(WriteFileAtomic(options_.file, api::DumpJson(ToJson(table)), 0600));
  table_ = table;
  std::erase_if(clients_, [&](const auto& entry) { return entry.first >= table.peers.size(); });
  return {};
}

PeerTable PeerDirectory::Table() const {
  MutexLock lock(mutex_);
  return table_;
}

std::uint32_t PeerDirectory::count() const {
  MutexLock lock(mutex_);
  return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(table_.peers.size()));
}

Result<std::shared_ptr<RuntimeClient>> PeerDirectory::Client(std::uint32_t index) {
  Secret token = options_.token();
  Secret previous = options_.previous_token();
  MutexLock lock(mutex_);
  const PeerEntry* entry = table_.Find(index);
  if (entry == nullptr) return Fail(Code::kNotFound, "the set has no partition {}", index);
  Known& known = clients_[index];
  if (known.client && known.options.address == entry->address &&
      known.options.tls_name == entry->tls_name && known.options.token == token &&
      known.options.previous_token == previous) {
    return known.client;
  }
  ClientOptions options{.address = entry->address,
                        .tls_name = entry->tls_name,
                        .ca_file = options_.ca_file,
                        .token = std::move(token),
                        .previous_token = std::move(previous)};
  ASSIGN_OR_RETURN(auto client, OpenRuntimeClient(options));
  known.options = std::move(options);
  known.client = std::move(client);
  return known.client;
}

}  // namespace paddleop::runtime
