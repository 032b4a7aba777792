// Error replies of the API server (meta/v1 Status) as our codes: the one place that reads them.
#pragma once

#include <string_view>

#include "base/status.h"

namespace paddleop::kube {

// The error in a reply outside 2xx, or in an ERROR event (whose `http_status` is in the body: pass
// 0). `what` is what we were doing: "create pods default/a". A body that is no Status counts by its
// HTTP status.
//
// `tested`: the request was a JSON patch with a test. The API server does not say which operation
// failed: a 422 without a cause then counts as the test, kConflict.
Status StatusOfReply(int http_status, std::string_view body, std::string_view what,
                     bool tested = false);

}  // namespace paddleop::kube
