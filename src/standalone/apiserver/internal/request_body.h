#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "api/meta/json.h"
#include "net/http_server.h"
#include "standalone/apiserver/api_error.h"
#include "standalone/apiserver/objects.h"

namespace paddleop::standalone::apiserver {

struct RequestBody {
  api::Json json;
  std::vector<std::string> duplicates;  // paths of fields that stand there twice
};

// Reads a body that must be a JSON object. 415 for other media types, 400 for what is no JSON.
Answer<RequestBody> ReadBody(const net::ServerRequest& request);

// Reads an object that is to be written: also 400 if it is another kind, version or namespace than
// the path says, or (`name` not empty) has another name.
Answer<RequestBody> ReadObject(const net::ServerRequest& request, const Kind& kind,
                               std::string_view ns, std::string_view name);

// dryRun and fieldValidation. 400 or 422 for values they do not have.
Answer<WriteOptions> ReadWriteOptions(const net::ServerRequest& request);

// The body and the query of a deletion.
Answer<DeleteRequest> ReadDeleteRequest(const net::ServerRequest& request);

// The media type of the body, without parameters.
std::string ContentType(const net::ServerRequest& request);

}  // namespace paddleop::standalone::apiserver
