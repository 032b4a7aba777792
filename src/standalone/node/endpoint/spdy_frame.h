// SPDY/3.1, as far as API servers speak it with kubelets: draft-mbelshe-httpbis-spdy-00, with
// sections given in the code. No priorities, no server push, no flow control: Kubernetes's own
// implementation has none of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace paddleop::standalone::node {

using SpdyHeaders = std::map<std::string, std::string>;

struct SpdyFrame {
  enum class Type : std::uint16_t {
    kData = 0,  // not a control frame
    kSynStream = 1,
    kSynReply = 2,
    kRstStream = 3,
    kSettings = 4,
    kPing = 6,
    kGoAway = 7,
    kHeaders = 8,
    kWindowUpdate = 9
  };
  Type type = Type::kData;
  std::uint32_t stream = 0;  // of a ping: its number
  bool last = false;         // FLAG_FIN: the sender's half of the stream ends
  SpdyHeaders headers;       // of kSynStream, kSynReply and kHeaders
  std::string payload;       // of kData
};

// Cuts frames out of a stream of bytes, however they fall. Header blocks share one compression, so
// every frame must go through the same parser.
class SpdyParser {
 public:
  SpdyParser();
  ~SpdyParser();
  void Feed(std::string_view bytes) { rest_ += bytes; }
  // The next whole frame, or nullopt if more bytes are needed. kInvalid for what is no SPDY/3.1, or
  // over a limit; nothing can be read after it.
  Result<std::optional<SpdyFrame>> Next();

 private:
  class Inflater;
  Result<SpdyFrame> Control(std::uint16_t type, bool last, std::string_view body);

  std::string rest_;
  std::unique_ptr<Inflater> inflater_;
};

// The other direction; one for all frames of a connection.
class SpdyWriter {
 public:
  SpdyWriter();
  ~SpdyWriter();
  std::string SynStream(std::uint32_t stream, const SpdyHeaders& headers, bool last);
  std::string SynReply(std::uint32_t stream);
  static std::string Data(std::uint32_t stream, std::string_view payload, bool last);
  static std::string Ping(std::uint32_t number);
  static std::string RstStream(std::uint32_t stream, std::uint32_t status);
  static std::string GoAway(std::uint32_t last_stream);

 private:
  class Deflater;
  std::unique_ptr<Deflater> deflater_;
};

}  // namespace paddleop::standalone::node
