#include "volume/object/s3/s3_xml.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <pugixml.hpp>

#include "base/crypto.h"
#include "volume/object/internal/times.h"
#include "volume/object/internal/utf8.h"

namespace paddleop::volume::object {
namespace {

// White space is kept: a key may consist of it where the server does not encode keys.
constexpr unsigned kParseOptions =
    pugi::parse_cdata | pugi::parse_escapes | pugi::parse_ws_pcdata_single;

Result<void> Load(std::string_view body, pugi::xml_document& document) {
  if (body.size() > kMaxXmlBytes) {
    return Fail(Code::kCorrupt, "an XML answer of {} bytes, more than the limit of {}", body.size(),
                kMaxXmlBytes);
  }
  // The encoding is given so that the library does not guess it from the first bytes.
  const auto result =
      document.load_buffer(body.data(), body.size(), kParseOptions, pugi::encoding_utf8);
  if (!result) return Fail(Code::kCorrupt, "an answer that is not XML: {}", result.description());
  return {};
}

// The root element; kCorrupt if it has another name.
Result<pugi::xml_node> Root(const pugi::xml_document& document, const char* name) {
  const pugi::xml_node root = document.document_element();
  if (std::strcmp(root.name(), name) != 0) {
    return Fail(Code::kCorrupt, "an XML answer <{}> where <{}> was expected", root.name(), name);
  }
  return root;
}

Result<std::string> DecodeKey(std::string_view text, bool encoded) {
  if (!encoded) return std::string(text);
  std::string plain(text);
  std::replace(plain.begin(), plain.end(), '+', ' ');
  auto decoded = UrlDecode(plain);
  if (!decoded) return Fail(Code::kCorrupt, "a listing with the key {}", text);
  return decoded;
}

std::string WithoutQuotes(std::string_view etag) {
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
    etag = etag.substr(1, etag.size() - 2);
  }
  return std::string(etag);
}

Result<ObjectInfo> ParseContents(const pugi::xml_node& node, bool encoded) {
  ObjectInfo entry;
  ASSIGN_OR_RETURN(entry.key, DecodeKey(node.child_value("Key"), encoded));
  const std::string_view size = node.child_value("Size");
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), entry.size);
  if (error != std::errc() || end != size.data() + size.size()) {
    return Fail(Code::kCorrupt, "a listing where {} has the size \"{}\"", entry.key, size);
  }
  const auto time = internal::ParseIsoTime(node.child_value("LastModified"));
  if (!time) {
    return Fail(Code::kCorrupt, "a listing where {} was modified \"{}\"", entry.key,
                node.child_value("LastModified"));
  }
  entry.mtime = *time;
  entry.etag = WithoutQuotes(node.child_value("ETag"));
  return entry;
}

internal::RestError ErrorOf(const pugi::xml_node& node) {
  return {.code = node.child_value("Code"),
          .message = node.child_value("Message"),
          .region = node.child_value("Region"),
          .endpoint = node.child_value("Endpoint"),
          .request_id = node.child_value("RequestId")};
}

void AppendEscaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      // A parser would turn these into something else.
      case '\t':
        out += "&#9;";
        break;
      case '\n':
        out += "&#10;";
        break;
      case '\r':
        out += "&#13;";
        break;
      default:
        out.push_back(c);
    }
  }
}

}  // namespace

std::optional<internal::RestError> ParseS3Error(std::string_view body) {
  pugi::xml_document document;
  if (!Load(body, document)) return std::nullopt;
  const pugi::xml_node root = document.document_element();
  if (std::strcmp(root.name(), "Error") == 0) return ErrorOf(root);
  // Some servers put it into an <ErrorResponse>.
  if (std::strcmp(root.name(), "ErrorResponse") != 0 || !root.child("Error")) return std::nullopt;
  return ErrorOf(root.child("Error"));
}

Result<internal::ListPage> ParseS3List(std::string_view body) {
  pugi::xml_document document;
  RETURN_IF_ERROR(Load(body, document));
  ASSIGN_OR_RETURN(const pugi::xml_node root, Root(document, "ListBucketResult"));
  const bool encoded = std::string_view(root.child_value("EncodingType")) == "url";
  internal::ListPage page;
  for (const pugi::xml_node& node : root.children("Contents")) {
    ASSIGN_OR_RETURN(ObjectInfo entry, ParseContents(node, encoded));
    page.entries.push_back(std::move(entry));
  }
  for (const pugi::xml_node& node : root.children("CommonPrefixes")) {
    ObjectInfo entry;
    entry.is_prefix = true;
    ASSIGN_OR_RETURN(entry.key, DecodeKey(node.child_value("Prefix"), encoded));
    page.entries.push_back(std::move(entry));
  }
  // Usually two sorted runs.
  std::sort(page.entries.begin(), page.entries.end(),
            [](const ObjectInfo& a, const ObjectInfo& b) { return a.key < b.key; });
  page.truncated = std::string_view(root.child_value("IsTruncated")) == "true";
  page.token = root.child_value("NextContinuationToken");
  if (page.truncated && page.token.empty()) {
    return Fail(Code::kCorrupt, "a listing that is truncated but has no continuation token");
  }
  return page;
}

Result<std::string> ParseS3UploadId(std::string_view body) {
  pugi::xml_document document;
  RETURN_IF_ERROR(Load(body, document));
  ASSIGN_OR_RETURN(const pugi::xml_node root, Root(document, "InitiateMultipartUploadResult"));
  std::string id = root.child_value("UploadId");
  if (id.empty()) return Fail(Code::kCorrupt, "an upload without an id");
  return id;
}

Result<std::vector<S3KeyError>> ParseS3DeleteResult(std::string_view body) {
  pugi::xml_document document;
  RETURN_IF_ERROR(Load(body, document));
  ASSIGN_OR_RETURN(const pugi::xml_node root, Root(document, "DeleteResult"));
  std::vector<S3KeyError> failed;
  for (const pugi::xml_node& node : root.children("Error")) {
    failed.push_back({node.child_value("Key"), ErrorOf(node)});
  }
  return failed;
}

bool FitsIntoXml(std::string_view text) {
  while (!text.empty()) {
    std::uint32_t code = 0;
    const std::size_t length = internal::TakeUtf8(text, code);
    const bool control = code < 0x20 && code != '\t' && code != '\n' && code != '\r';
    if (length == 0 || control || code == 0xfffe || code == 0xffff) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string S3DeleteBody(std::span<const std::string> keys) {
  std::string body =
      "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>";
  for (const std::string& key : keys) {
    body += "<Object><Key>";
    AppendEscaped(body, key);
    body += "</Key></Object>";
  }
  return body + "</Delete>";
}

std::string S3CompleteBody(std::span<const UploadedPart> parts) {
  std::string body = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (const UploadedPart& part : parts) {
    body += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>", part.number);
    AppendEscaped(body, "\"" + part.etag + "\"");
    body += "</ETag></Part>";
  }
  return body + "</CompleteMultipartUpload>";
}

std::string S3CreateBucketBody(std::string_view region) {
  std::string body =
      "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<LocationConstraint>";
  AppendEscaped(body, region);
  return body + "</LocationConstraint></CreateBucketConfiguration>";
}

}  // namespace paddleop::volume::object
