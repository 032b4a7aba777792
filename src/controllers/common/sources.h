// Where data comes from, as specs name it.
#pragma once

#include <string>
#include <string_view>

#include "controllers/common/secrets.h"
#include "runtime/protocol/job.h"

namespace paddleop::controllers {

// kInvalid if nobody reads such a source with this driver; `field` begins the message, and keys in
// the URI are not in it.
Result<void> CheckSource(std::string_view uri, std::string_view driver, std::string_view field);

// Keys of the volume's store are also good for a source in a store of the same kind, and for no
// other: a public bucket must not be asked with somebody else's keys.
bool SharesKeys(std::string_view uri, const SecretView& volume);

// The source as it is posted: keys from the Secret, or else those that the URI carries, beside a
// URI without them.
runtime::JobSource MakeSource(std::string_view uri, std::string path, const SecretView& secret);

}  // namespace paddleop::controllers
