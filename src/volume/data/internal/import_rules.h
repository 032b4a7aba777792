// What an import decides about keys without asking anybody: which are wanted, which can be files,
// whose part they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "volume/data/import.h"
#include "volume/format/types.h"

namespace paddleop::volume::data {

// A shell pattern: '?' and '*' stay within a part of a path, "**" crosses '/', "[a-z]" and "[!a]"
// are sets, '\' takes the next character as it is.
class Glob {
 public:
  explicit Glob(std::string_view pattern);
  bool Matches(std::string_view text) const;

 private:
  struct Token {
    enum class Kind { kLiteral, kAnyOne, kSet, kStar, kDoubleStar };
    Kind kind;
    char literal = 0;
    bool negated = false;
    std::vector<std::pair<unsigned char, unsigned char>> ranges;
  };
  static bool Accepts(const Token& token, char c);

  std::vector<Token> tokens_;
};

// The rules of --include and --exclude, applied to each directory above a file and to the file: the
// first that matches decides for that level, and a directory that is left out takes all below it
// with it.
class KeyFilter {
 public:
  explicit KeyFilter(const std::vector<FilterRule>& rules);
  bool empty() const { return rules_.empty(); }
  // `path` without a leading '/'; a directory ends with '/'.
  bool Wants(std::string_view path) const;

 private:
  struct Rule {
    bool include;
    bool directories_only;
    bool whole_path;  // else the last part only
    Glob glob;
  };
  bool LevelWanted(std::string_view path) const;

  std::vector<Rule> rules_;
};

// Whether start <= key <= end; an empty bound is none.
bool InRange(std::string_view key, std::string_view start, std::string_view end);
// Where a listing must start so that `start` itself is seen: a key before it.
std::string StartAfter(std::string_view start);

// Whether the key can be a path of a volume; says why not.
Result<void> CheckKey(std::string_view key);

// A hash that is the same in every process and release: parts of an import agree by it.
std::uint64_t StableHash(std::string_view text);

// Cuts a listing into runs of about 512 keys and tells whose each is. Everyone who shows it the
// same keys in the same order gets the same answer.
class PartOfKeys {
 public:
  explicit PartOfKeys(std::uint32_t parts) : parts_(parts) {}
  std::uint32_t Next(std::string_view key);

 private:
  const std::uint32_t parts_;
  bool begun_ = false;
  std::uint32_t owner_ = 0;
};

// Finds, in keys that come in order, a file whose name is also a directory's: "a" and "a/b".
class NameClash {
 public:
  // The file above `key`, if there is one; remembers `key`.
  std::optional<std::string> Next(std::string_view key);

 private:
  std::vector<std::string> open_;  // each a prefix of the next, and of the last key
};

// Whether two times are the same as far as both are known: some keep whole seconds only.
bool SameTime(const Timestamp& a, const Timestamp& b);

}  // namespace paddleop::volume::data
