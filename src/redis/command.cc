#include "redis/command.h"

#include <cstring>

#include "base/check.h"

namespace paddleop::redis {
namespace {

// "*" or "$", a number, CRLF.
constexpr std::size_t kMaxHeader = 1 + 20 + 2;

char* PutHeader(char* at, char type, std::size_t number) {
  *at++ = type;
  if (number < 10) {
    *at++ = static_cast<char>('0' + number);
  } else {
    at = std::to_chars(at, at + 20, number).ptr;
  }
  *at++ = '\r';
  *at++ = '\n';
  return at;
}

char* PutBytes(char* at, std::string_view bytes) {
  std::memcpy(at, bytes.data(), bytes.size());
  return at + bytes.size();
}

// Grows `out` by what `put` writes, at most `bound` bytes, without filling it with zeros first.
template <class Put>
void AppendWith(std::string& out, std::size_t bound, Put put) {
  const std::size_t before = out.size();
  // Growing by the exact bound each time would copy a long batch again and again.
  if (out.capacity() < before + bound) out.reserve(std::max(2 * out.capacity(), before + bound));
  out.resize_and_overwrite(before + bound, [&](char* data, std::size_t) {
    return static_cast<std::size_t>(put(data + before) - data);
  });
}

}  // namespace

void AppendCommandHeader(std::string& out, std::size_t arg_count) {
  AppendWith(out, kMaxHeader, [&](char* at) { return PutHeader(at, '*', arg_count); });
}

void AppendArgHeader(std::string& out, std::size_t arg_size) {
  AppendWith(out, kMaxHeader, [&](char* at) { return PutHeader(at, '$', arg_size); });
}

void AppendCommand(std::string& out, Args args) {
  CHECK(!args.empty(), "a command needs a name");
  std::size_t bound = kMaxHeader;
  for (const Arg& arg : args) bound += kMaxHeader + arg.view().size() + kArgEnd.size();
  AppendWith(out, bound, [&](char* at) {
    at = PutHeader(at, '*', args.size());
    for (const Arg& arg : args) {
      at = PutHeader(at, '$', arg.view().size());
      at = PutBytes(at, arg.view());
      at = PutBytes(at, kArgEnd);
    }
    return at;
  });
}

void Commands::Add(Args args) {
  AppendCommand(bytes_, args);
  ++count_;
  const std::size_t marked = marks_.empty() ? 0 : marks_.back().bytes;
  if (bytes_.size() - marked >= kMarkBytes) marks_.push_back({bytes_.size(), count_});
}

void Commands::Append(const Commands& other) {
  const std::size_t bytes = bytes_.size();
  for (const Mark& mark : other.marks_) marks_.push_back({bytes + mark.bytes, count_ + mark.count});
  bytes_.append(other.bytes_);
  count_ += other.count_;
}

void Commands::Clear() {
  bytes_.clear();
  marks_.clear();
  count_ = 0;
}

}  // namespace paddleop::redis
