#include "standalone/node/endpoint/spdy_frame.h"

#include <fmt/format.h>
#include <zlib.h>

#include "base/check.h"
#include "standalone/node/endpoint/spdy_dictionary.h"

namespace paddleop::standalone::node {
namespace {

using SpdyType = SpdyFrame::Type;

constexpr std::uint32_t kControlBit = 0x8000'0000;
constexpr std::uint32_t kSpdyVersion = 3;
constexpr std::uint8_t kFlagFin = 1;
constexpr std::size_t kSpdyHead = 8;
constexpr std::size_t kMaxControl = 64 << 10;  // bytes of a control frame, and of its headers
constexpr std::size_t kMaxData = 4 << 20;
constexpr std::uint32_t kMaxHeaders = 256;

std::uint32_t Number32(std::string_view bytes, std::size_t at) {
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < 4; ++i) out = out << 8 | static_cast<unsigned char>(bytes[at + i]);
  return out;
}

void Append32(std::string& out, std::uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(value >> shift & 0xff);
}

std::string Frame(std::uint32_t first, bool last, std::string_view body) {
  std::string out;
  out.reserve(kSpdyHead + body.size());
  Append32(out, first);
  Append32(out,
           (last ? std::uint32_t{kFlagFin} << 24 : 0) | static_cast<std::uint32_t>(body.size()));
  out += body;
  return out;
}

std::string ControlFrame(SpdyType type, bool last, std::string_view body) {
  return Frame(kControlBit | kSpdyVersion << 16 | static_cast<std::uint32_t>(type), last, body);
}

// Section 2.6.10: a count, then names and values, each after its length.
Result<SpdyHeaders> ReadHeaders(std::string_view block) {
  const auto broken = [] { return Fail(Code::kInvalid, "SPDY: a broken header block"); };
  if (block.size() < 4) return broken();
  const std::uint32_t count = Number32(block, 0);
  if (count > kMaxHeaders) return Fail(Code::kInvalid, "SPDY: {} headers are too many", count);
  block.remove_prefix(4);
  SpdyHeaders out;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::string words[2];
    for (std::string& word : words) {
      if (block.size() < 4) return broken();
      const std::uint32_t size = Number32(block, 0);
      if (size > block.size() - 4) return broken();
      word = block.substr(4, size);
      block.remove_prefix(4 + size);
    }
    out[words[0]] = words[1];
  }
  return out;
}

std::string WriteHeaders(const SpdyHeaders& headers) {
  std::string out;
  Append32(out, static_cast<std::uint32_t>(headers.size()));
  for (const auto& [name, value] : headers) {
    for (const std::string* word : {&name, &value}) {
      Append32(out, static_cast<std::uint32_t>(word->size()));
      out += *word;
    }
  }
  return out;
}

const Bytef* BytesOf(std::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); }

void SetInput(z_stream& stream, std::string_view text) {
  stream.next_in = const_cast<Bytef*>(BytesOf(text));  // zlib's type; it only reads
  stream.avail_in = static_cast<uInt>(text.size());
}

}  // namespace

class SpdyParser::Inflater {
 public:
  Inflater() { CHECK(::inflateInit(&stream_) == Z_OK, "zlib starts"); }
  ~Inflater() { ::inflateEnd(&stream_); }

  Result<std::string> Inflate(std::string_view block) {
    std::string out;
    Bytef buffer[4096];
    SetInput(stream_, block);
    for (;;) {
      stream_.next_out = buffer;
      stream_.avail_out = sizeof buffer;
      int result = ::inflate(&stream_, Z_SYNC_FLUSH);
      if (result == Z_NEED_DICT) {
        const std::string& dictionary = SpdyDictionary();
        result = ::inflateSetDictionary(&stream_, BytesOf(dictionary),
                                        static_cast<uInt>(dictionary.size()));
        if (result == Z_OK) continue;
      }
      out.append(reinterpret_cast<const char*>(buffer), sizeof buffer - stream_.avail_out);
      if (out.size() > kMaxControl) return Fail(Code::kInvalid, "SPDY: headers are too long");
      // Z_BUF_ERROR: nothing is left to be done with these bytes.
      if (result != Z_OK && result != Z_BUF_ERROR) {
        return Fail(Code::kInvalid, "SPDY: headers that cannot be decompressed");
      }
      if (stream_.avail_in == 0 && stream_.avail_out > 0) return out;
      if (result == Z_BUF_ERROR) return Fail(Code::kInvalid, "SPDY: headers that do not end");
    }
  }

 private:
  z_stream stream_{};
};

SpdyParser::SpdyParser() : inflater_(std::make_unique<Inflater>()) {}
SpdyParser::~SpdyParser() = default;

Result<std::optional<SpdyFrame>> SpdyParser::Next() {
  if (rest_.size() < kSpdyHead) return std::optional<SpdyFrame>();
  const std::uint32_t first = Number32(rest_, 0);
  const std::uint32_t second = Number32(rest_, 4);
  const std::size_t size = second & 0xff'ffff;
  const bool last = (second >> 24 & kFlagFin) != 0;
  const bool control = (first & kControlBit) != 0;
  if (control && (first >> 16 & 0x7fff) != kSpdyVersion)
    return Fail(Code::kInvalid, "SPDY: a frame of another version than 3");
  if (size > (control ? kMaxControl : kMaxData))
    return Fail(Code::kInvalid, "SPDY: a frame of {} bytes is too long", size);
  if (rest_.size() < kSpdyHead + size) return std::optional<SpdyFrame>();
  SpdyFrame frame;
  if (control) {
    const auto body = std::string_view(rest_).substr(kSpdyHead, size);
    ASSIGN_OR_RETURN(frame, Control(static_cast<std::uint16_t>(first & 0xffff), last, body));
  } else {
    frame.stream = first;
    frame.last = last;
    frame.payload = rest_.substr(kSpdyHead, size);
  }
  rest_.erase(0, kSpdyHead + size);
  return std::optional<SpdyFrame>(std::move(frame));
}

// Sections 2.6.1 to 2.6.8. Types that we do not know are passed on, to be left alone.
Result<SpdyFrame> SpdyParser::Control(std::uint16_t type, bool last, std::string_view body) {
  SpdyFrame frame;
  frame.type = static_cast<SpdyType>(type);
  frame.last = last;
  if (frame.type == SpdyType::kData) return Fail(Code::kInvalid, "SPDY: a frame of type 0");
  if (frame.type == SpdyType::kSettings) return frame;
  if (body.size() < 4) return Fail(Code::kInvalid, "SPDY: a frame of type {} is too short", type);
  frame.stream = Number32(body, 0);
  if (frame.type != SpdyType::kPing) frame.stream &= ~kControlBit;
  std::size_t block = 4;
  if (frame.type == SpdyType::kSynStream) {
    block = 10;  // the stream it belongs to, priority and slot
  } else if (frame.type != SpdyType::kSynReply && frame.type != SpdyType::kHeaders) {
    return frame;
  }
  if (body.size() < block) return Fail(Code::kInvalid, "SPDY: a frame that is too short");
  ASSIGN_OR_RETURN(const std::string text, inflater_->Inflate(body.substr(block)));
  ASSIGN_OR_RETURN(frame.headers, ReadHeaders(text));
  return frame;
}

class SpdyWriter::Deflater {
 public:
  Deflater() {
    CHECK(::deflateInit(&stream_, Z_DEFAULT_COMPRESSION) == Z_OK, "zlib starts");
    const std::string& dictionary = SpdyDictionary();
    CHECK(::deflateSetDictionary(&stream_, BytesOf(dictionary),
                                 static_cast<uInt>(dictionary.size())) == Z_OK,
          "zlib takes a dictionary");
  }
  ~Deflater() { ::deflateEnd(&stream_); }

  std::string Deflate(std::string_view block) {
    std::string out;
    Bytef buffer[4096];
    SetInput(stream_, block);
    do {
      stream_.next_out = buffer;
      stream_.avail_out = sizeof buffer;
      ::deflate(&stream_, Z_SYNC_FLUSH);
      out.append(reinterpret_cast<const char*>(buffer), sizeof buffer - stream_.avail_out);
    } while (stream_.avail_out == 0);
    return out;
  }

 private:
  z_stream stream_{};
};

SpdyWriter::SpdyWriter() : deflater_(std::make_unique<Deflater>()) {}
SpdyWriter::~SpdyWriter() = default;

std::string SpdyWriter::SynStream(std::uint32_t stream, const SpdyHeaders& headers, bool last) {
  std::string body;
  Append32(body, stream);
  Append32(body, 0);
  body += std::string_view("\0\0", 2);
  return ControlFrame(SpdyType::kSynStream, last, body + deflater_->Deflate(WriteHeaders(headers)));
}

std::string SpdyWriter::SynReply(std::uint32_t stream) {
  std::string body;
  Append32(body, stream);
  return ControlFrame(SpdyType::kSynReply, false, body + deflater_->Deflate(WriteHeaders({})));
}

std::string SpdyWriter::Data(std::uint32_t stream, std::string_view payload, bool last) {
  return Frame(stream, last, payload);
}

std::string SpdyWriter::Ping(std::uint32_t number) {
  std::string body;
  Append32(body, number);
  return ControlFrame(SpdyType::kPing, false, body);
}

std::string SpdyWriter::RstStream(std::uint32_t stream, std::uint32_t status) {
  std::string body;
  Append32(body, stream);
  Append32(body, status);
  return ControlFrame(SpdyType::kRstStream, false, body);
}

std::string SpdyWriter::GoAway(std::uint32_t last_stream) {
  std::string body;
  Append32(body, last_stream);
  Append32(body, 0);
  return ControlFrame(SpdyType::kGoAway, false, body);
}

}  // namespace paddleop::standalone::node
