#pragma once

#include <string>

namespace paddleop::standalone::node {

// What both sides' compression of headers starts from: section 2.6.10.1 of the SPDY/3.1 draft.
const std::string& SpdyDictionary();

}  // namespace paddleop::standalone::node
