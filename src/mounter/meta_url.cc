#include "mounter/meta_url.h"

#include "base/crypto.h"

namespace paddleop::mounter {

MetaUrl SplitPassword(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return {std::string(url), {}};
  const std::size_t begin = scheme + 3;
  const std::size_t end = std::min(url.find('/', begin), url.size());
  const std::size_t at = url.substr(0, end).rfind('@');
  if (at == std::string_view::npos || at < begin) return {std::string(url), {}};
  const std::size_t colon = url.substr(0, at).find(':', begin);
  if (colon == std::string_view::npos) return {std::string(url), {}};
  std::string password(url.substr(colon + 1, at - colon - 1));
  // What the URL spelled with percent signs, the environment has plain.
  if (auto decoded = UrlDecode(password)) password = *std::move(decoded);
  std::string rest(url.substr(0, colon));
  if (colon > begin) rest += '@';
  rest += url.substr(at + 1);
  return {std::move(rest), Secret(std::move(password))};
}

}  // namespace paddleop::mounter
