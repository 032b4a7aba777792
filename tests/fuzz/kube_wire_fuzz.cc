// Everything an API server sends is read by these; whatever it is, they answer with a value or an
// error. What was read as an object can be read again from the text that was kept of it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "kube/wire/patch.h"
#include "kube/wire/raw_object.h"
#include "kube/wire/selector.h"
#include "kube/wire/status_reply.h"
#include "kube/wire/watch_event.h"

namespace kube = paddleop::kube;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto object = kube::ParseObject(text);
  // Parts that nobody asked for are skipped unread, so this holds for real JSON only.
  if (object && nlohmann::json::accept(text)) {
    const auto again = kube::ParseObject(object->json);
    if (!again || again->name != object->name || again->labels != object->labels) std::abort();
  }
  (void)kube::ParseList(std::string(text));
  (void)kube::ParseWatchEvent(text);
  (void)kube::StatusOfReply(0, text, "fuzz");
  (void)kube::Selector::Parse(text);
  const std::size_t half = size / 2;
  (void)kube::MergeDifference(text.substr(0, half), text.substr(half));
  kube::LineSplitter lines(1 << 10);
  const auto ignore = [](std::string_view) -> paddleop::Result<void> { return {}; };
  if (lines.Feed(text.substr(0, half), ignore)) (void)lines.Feed(text.substr(half), ignore);
  return 0;
}
