// Names of what this room counts; docs/metrics.md lists them for users.
#pragma once

namespace paddleop::net {

// Responses by class of status: label code is 1xx, 2xx, 3xx, 4xx or 5xx.
inline constexpr char kHttpServerResponses[] = "paddleop_http_server_responses_total";
// Requests the server itself refused: label reason is malformed, timeout, too_large or overloaded.
inline constexpr char kHttpServerRefused[] = "paddleop_http_server_refused_total";
// From the whole request to the handler's answer.
inline constexpr char kHttpServerSeconds[] = "paddleop_http_server_request_seconds";
inline constexpr char kHttpServerInFlight[] = "paddleop_http_server_requests_in_flight";
inline constexpr char kHttpServerConnections[] = "paddleop_http_server_connections";
inline constexpr char kHttpServerStreams[] = "paddleop_http_server_streams";

}  // namespace paddleop::net
