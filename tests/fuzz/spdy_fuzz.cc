// Frames of SPDY/3.1, as an API server sends them to the node agent.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "standalone/node/endpoint/spdy_frame.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  paddleop::standalone::node::SpdyParser parser;
  parser.Feed({reinterpret_cast<const char*>(data), size});
  for (;;) {
    const auto frame = parser.Next();
    if (!frame || !*frame) return 0;
  }
}
