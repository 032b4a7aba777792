#pragma once

#include <optional>
#include <string>

#include "controllers/paddlejob/census.h"
#include "controllers/paddlejob/environment.h"

namespace paddleop::controllers::paddlejob {

struct AddressBook {
  Addresses addresses;
  std::string problem;  // why there can be no address book, for a condition; empty: only not yet
  bool complete = false;
};

// Where every member is reached: by name in Service mode, by address otherwise. Complete once every
// wanted pod has an address. In Host mode pods that share a node, hence an address, get blocks of
// ports of their own.
AddressBook FindAddresses(const Observed& seen, const Census& census);

// How many port blocks a Host job needs: as many as it has pods on its fullest node. 0 until all
// have an address.
int PortBlocksNeeded(const api::PaddleJob& job,
                     const std::vector<std::shared_ptr<const api::Pod>>& pods);

// The pod's IPv4 address if it has one, else whatever it has.
std::string AddressOf(const api::Pod& pod);

// The blocks that the job's annotations name.
std::vector<int> StoredPortBlocks(const api::ObjectMeta& job);

}  // namespace paddleop::controllers::paddlejob
