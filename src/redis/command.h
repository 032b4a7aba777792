#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paddleop::redis {

// One argument of a command: any bytes, borrowed from the caller, or a number.
class Arg {
 public:
  Arg(std::string_view bytes) : size_(bytes.size()) { data_.bytes = bytes.data(); }
  Arg(const std::string& bytes) : Arg(std::string_view(bytes)) {}
  Arg(const char* text) : Arg(std::string_view(text)) {}
  template <std::integral T>
    requires(!std::same_as<T, bool> && !std::same_as<T, char>)
  Arg(T number) : is_number_(true) {
    const auto end = std::to_chars(data_.digits, data_.digits + sizeof(data_.digits), number).ptr;
    size_ = static_cast<std::size_t>(end - data_.digits);
  }

  std::string_view view() const { return {is_number_ ? data_.digits : data_.bytes, size_}; }

 private:
  union {
    const char* bytes;
    char digits[20];  // -9223372036854775808
  } data_;
  bool is_number_ = false;
  std::size_t size_ = 0;
};

using Args = std::span<const Arg>;

// Appends the command in wire form.
void AppendCommand(std::string& out, Args args);
// The part of the wire form before the bytes of an argument, and what follows them.
void AppendCommandHeader(std::string& out, std::size_t arg_count);
void AppendArgHeader(std::string& out, std::size_t arg_size);
inline constexpr std::string_view kArgEnd = "\r\n";

// Commands in wire form, to be sent together. The arguments are copied: they need not outlive
// Add().
class Commands {
 public:
  void Add(std::initializer_list<Arg> args) { Add(Args(args.begin(), args.size())); }
  void Add(Args args);
  // Adds all of another batch.
  void Append(const Commands& other);
  void Clear();
  void Reserve(std::size_t bytes) { bytes_.reserve(bytes); }

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  std::string_view bytes() const { return bytes_; }

  // Where a long batch is cut so that requests and replies overlap: after each mark a whole number
  // of commands has been sent.
  struct Mark {
    std::size_t bytes;
    std::size_t count;
  };
  std::span<const Mark> marks() const { return marks_; }
  static constexpr std::size_t kMarkBytes = 64 << 10;

 private:
  std::string bytes_;
  std::size_t count_ = 0;
  std::vector<Mark> marks_;
};

}  // namespace paddleop::redis
