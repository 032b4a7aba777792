// Error replies of the API server (meta/v1 Status) as our codes: the one place that reads them.
#pragma once

#include <string_view>

#include "base/status.h"

namespace paddleop::kube {

// The error in a reply outside 2xx, or in an ERROR event (whose `http_status` is in the body: pass
// 0). `what` is what we were doing: "create pods default/a". A body that is no Status counts by its
// HTTP status.
Status StatusOfReply(int http_status, std::string_view body, std::string_view what);

}  // namespace paddleop::kube
