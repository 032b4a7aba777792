#include "volume/data/internal/import_rules.h"

#include <algorithm>

namespace paddleop::volume::data {
namespace {

constexpr std::uint64_t kRunLength = 512;

}  // namespace

Glob::Glob(std::string_view pattern) {
  using Kind = Token::Kind;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '*') {
      const bool twice = i + 1 < pattern.size() && pattern[i + 1] == '*';
      while (i + 1 < pattern.size() && pattern[i + 1] == '*') ++i;
      tokens_.push_back({.kind = twice ? Kind::kDoubleStar : Kind::kStar, .ranges = {}});
    } else if (c == '?') {
      tokens_.push_back({.kind = Kind::kAnyOne, .ranges = {}});
    } else if (c == '\\' && i + 1 < pattern.size()) {
      tokens_.push_back({.kind = Kind::kLiteral, .literal = pattern[++i], .ranges = {}});
    } else if (const auto close = pattern.find(']', i + 2);
               c == '[' && close != std::string_view::npos) {
      Token token{.kind = Kind::kSet, .ranges = {}};
      std::size_t at = i + 1;
      token.negated = pattern[at] == '!' || pattern[at] == '^';
      if (token.negated) ++at;
      while (at < close) {
        const auto first = static_cast<unsigned char>(pattern[at]);
        auto last = first;
        if (at + 2 < close && pattern[at + 1] == '-') {
          last = static_cast<unsigned char>(pattern[at + 2]);
          at += 2;
        }
        token.ranges.emplace_back(first, last);
        ++at;
      }
      tokens_.push_back(std::move(token));
      i = close;
    } else {
      tokens_.push_back({.kind = Kind::kLiteral, .literal = c, .ranges = {}});
    }
  }
}

bool Glob::Accepts(const Token& token, char c) {
  switch (token.kind) {
    case Token::Kind::kLiteral:
      return c == token.literal;
    case Token::Kind::kAnyOne:
      return c != '/';
    case Token::Kind::kSet: {
      if (c == '/') return false;
      const auto byte = static_cast<unsigned char>(c);
      const bool in = std::any_of(token.ranges.begin(), token.ranges.end(), [&](const auto& range) {
        return byte >= range.first && byte <= range.second;
      });
      return in != token.negated;
    }
    case Token::Kind::kStar:
    case Token::Kind::kDoubleStar:
      break;
  }
  return false;
}

// All positions in the pattern that the text read so far can have led to, at once: no pattern makes
// it slow.
bool Glob::Matches(std::string_view text) const {
  const std::size_t count = tokens_.size();
  std::vector<char> at(count + 1, 0);
  const auto spread = [&](std::vector<char>& set) {
    for (std::size_t i = 0; i < count; ++i) {
      const bool star =
          tokens_[i].kind == Token::Kind::kStar || tokens_[i].kind == Token::Kind::kDoubleStar;
      if (set[i] != 0 && star) set[i + 1] = 1;
    }
  };
  at[0] = 1;
  spread(at);
  for (const char c : text) {
    std::vector<char> next(count + 1, 0);
    for (std::size_t i = 0; i < count; ++i) {
      if (at[i] == 0) continue;
      if (tokens_[i].kind == Token::Kind::kDoubleStar ||
          (tokens_[i].kind == Token::Kind::kStar && c != '/')) {
        next[i] = 1;
      } else if (Accepts(tokens_[i], c)) {
        next[i + 1] = 1;
      }
    }
    spread(next);
    at = std::move(next);
  }
  return at[count] != 0;
}

KeyFilter::KeyFilter(const std::vector<FilterRule>& rules) {
  const auto add = [&](bool include, std::string_view pattern, bool directories_only) {
    const bool anchored = pattern.starts_with('/');
    if (anchored) pattern.remove_prefix(1);
    const bool path = anchored || pattern.find('/') != std::string_view::npos ||
                      pattern.find("**") != std::string_view::npos;
    rules_.push_back({include, directories_only, path, Glob(pattern)});
    // Without a leading '/' the pattern may begin at any part of the path.
    if (path && !anchored) {
      rules_.push_back({include, directories_only, true, Glob("**/" + std::string(pattern))});
    }
  };
  for (const FilterRule& rule : rules) {
    std::string_view pattern = rule.pattern;
    if (pattern.ends_with("/***")) {
      pattern.remove_suffix(4);
      add(rule.include, pattern, true);
      add(rule.include, std::string(pattern) + "/**", false);
    } else if (pattern.ends_with('/')) {
      pattern.remove_suffix(1);
      add(rule.include, pattern, true);
    } else {
      add(rule.include, pattern, false);
    }
  }
}

bool KeyFilter::LevelWanted(std::string_view path) const {
  const bool directory = path.ends_with('/');
  if (directory) path.remove_suffix(1);
  const std::string_view last = path.substr(path.rfind('/') + 1);
  for (const Rule& rule : rules_) {
    if (rule.directories_only && !directory) continue;
    if (rule.glob.Matches(rule.whole_path ? path : last)) return rule.include;
  }
  return true;
}

bool KeyFilter::Wants(std::string_view path) const {
  if (rules_.empty()) return true;
  for (std::size_t slash = path.find('/'); slash != std::string_view::npos;
       slash = path.find('/', slash + 1)) {
    if (!LevelWanted(path.substr(0, slash + 1))) return false;
  }
  return path.ends_with('/') || LevelWanted(path);
}

bool InRange(std::string_view key, std::string_view start, std::string_view end) {
  return (start.empty() || key >= start) && (end.empty() || key <= end);
}

std::string StartAfter(std::string_view start) {
  return std::string(start.substr(0, start.empty() ? 0 : start.size() - 1));
}

Result<void> CheckKey(std::string_view key) {
  if (key.empty()) return Fail(Code::kInvalid, "the key is empty");
  if (key.find('\0') != std::string_view::npos) {
    return Fail(Code::kInvalid, "the key has a NUL byte, which no file name can have");
  }
  for (std::size_t start = 0; start <= key.size();) {
    const std::size_t end = std::min(key.find('/', start), key.size());
    const std::string_view part = key.substr(start, end - start);
    if (part.empty() && end == key.size() && start > 0) break;  // a trailing '/'
    if (part.empty()) return Fail(Code::kInvalid, "the key has an empty part between two '/'");
    if (part == "." || part == "..") {
      return Fail(Code::kInvalid, "the key has the part \"{}\", which no file name can be", part);
    }
    if (part.size() > kMaxName) {
      return Fail(Code::kNameTooLong, "a part of the key has {} bytes; names have at most {}",
                  part.size(), kMaxName);
    }
    start = end + 1;
  }
  return {};
}

std::uint64_t StableHash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  // Its low bits alone are not even: mixed as splitmix64 does it.
  hash ^= hash >> 30U;
  hash *= 0xbf58476d1ce4e5b9ULL;
  hash ^= hash >> 27U;
  hash *= 0x94d049bb133111ebULL;
  return hash ^ (hash >> 31U);
}

std::uint32_t PartOfKeys::Next(std::string_view key) {
  const std::uint64_t hash = StableHash(key);
  if (!begun_ || hash % kRunLength == 0) {
    owner_ = static_cast<std::uint32_t>((hash >> 32U) % parts_);
    begun_ = true;
  }
  return owner_;
}

std::optional<std::string> NameClash::Next(std::string_view key) {
  while (!open_.empty() && !key.starts_with(open_.back())) open_.pop_back();
  for (const std::string& file : open_) {
    if (key.size() > file.size() && key[file.size()] == '/') return file;
  }
  if (!key.ends_with('/')) open_.emplace_back(key);
  return std::nullopt;
}

bool SameTime(const Timestamp& a, const Timestamp& b) {
  if (a.seconds != b.seconds) return false;
  return a.nanos == b.nanos || a.nanos == 0 || b.nanos == 0;
}

}  // namespace paddleop::volume::data
