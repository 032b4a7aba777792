// Whatever an object store answers: reading it ends with a value or with kCorrupt, and a listing is
// in order. The first byte of the input chooses the kind of answer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "volume/object/bos/bos_json.h"
#include "volume/object/s3/s3_xml.h"

namespace {

using paddleop::Code;
using paddleop::Result;

template <class T>
void Expect(const Result<T>& result) {
  CHECK(result || result.error().code() == Code::kCorrupt, "unexpected error");
}

void ExpectOrder(const Result<paddleop::volume::object::internal::ListPage>& page) {
  Expect(page);
  if (!page) return;
  CHECK(std::is_sorted(page->entries.begin(), page->entries.end(),
                       [](const auto& a, const auto& b) { return a.key < b.key; }),
        "a listing out of order");
  CHECK(!page->truncated || !page->token.empty(), "a listing without an end");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paddleop::volume::object;
  if (size < 1) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 8) {
    case 0:
      ExpectOrder(ParseS3List(body));
      break;
    case 1:
      (void)ParseS3Error(body);
      break;
    case 2:
      Expect(ParseS3DeleteResult(body));
      break;
    case 3:
      Expect(ParseS3UploadId(body));
      break;
    case 4:
      ExpectOrder(ParseBosList(body));
      break;
    case 5:
      (void)ParseBosError(body);
      break;
    case 6:
      Expect(ParseBosDeleteResult(body));
      break;
    default:
      // What claims to fit into XML comes back from it.
      if (const std::string key(body); !key.empty() && FitsIntoXml(key)) {
        (void)S3DeleteBody(std::span(&key, 1));
      }
  }
  return 0;
}
