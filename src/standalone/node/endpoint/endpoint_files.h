#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "net/tls.h"

namespace paddleop::standalone::node {

// A certificate of the endpoint's own in `directory`, for these addresses; made when there is none
// or it is about to expire. API servers do not look at who signed it, as with a kubelet's.
Result<net::ServerTls> EndpointCertificate(const std::string& directory,
                                           const std::vector<std::string>& addresses, Clock& clock);

}  // namespace paddleop::standalone::node
