#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics.h"
#include "base/thread_pool.h"
#include "net/http_server.h"
#include "net/internal/request_reader.h"
#include "net/internal/response_head.h"
#include "net/internal/stream_core.h"
#include "net/internal/transport.h"

namespace paddleop::net::internal {

struct ServerMetrics {
  explicit ServerMetrics(MetricsRegistry& registry);
  void CountResponse(int status);

  std::array<MetricsRegistry::Counter*, 5> responses{};
  MetricsRegistry::Counter& malformed;
  MetricsRegistry::Counter& timeout;
  MetricsRegistry::Counter& too_large;
  MetricsRegistry::Counter& overloaded;
  MetricsRegistry::Histogram& seconds;
  MetricsRegistry::Gauge& in_flight;
  MetricsRegistry::Gauge& connections;
  MetricsRegistry::Gauge& streams;
};

class Session;

// What every session of a server uses; outlives them all.
struct SessionHost {
  const HttpServerOptions& options;
  const HttpServer::Handler& handler;
  ThreadPool& handlers;
  ServerMetrics& metrics;
  std::atomic<bool>& stopping;
  std::function<void(Session*)> on_closed;
};

// One connection: reads requests one after the other, has them handled, sends the answers.
//
// Everything but the handler runs on the connection's strand. A read is always under way (except
// when enough is buffered), so a client that goes away is noticed while its request is being
// handled.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(SessionHost& host, Strand strand, std::unique_ptr<Transport> transport,
          std::string remote);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // From any thread.
  void Start();
  // Answers the request at hand, if there is one, and closes.
  void Finish();
  // Closes at once; a handler at work is told to stop.
  void Abort();

 private:
  enum class State {
    kHandshake,
    kReading,     // for a request
    kContinuing,  // sending "100 Continue"
    kHandling,    // the handler is at work
    kResponding,  // sending its answer
    kStreaming,   // sending what is written to core_
    kLingering,   // all is sent; waiting for the client to have read it
    kClosed,
  };

  void OnHandshake(IoError error);
  void StartRead();
  void OnRead(IoError error, std::size_t count);
  void OnPeerClosed();
  bool MayRead() const;
  void Advance();
  void SetReadTimer();
  void OnReadTimer();

  void Dispatch();
  // On a handler's thread.
  void Handle(const Context& ctx, const ServerRequest& request);
  void OnResponse(ServerResponse response);
  void OnStream(const ServerResponse& head, std::shared_ptr<StreamCore> core);
  void Refuse(int status, std::string why);
  void Respond(ServerResponse response);
  void OnSent();

  void Flush();
  void EndStream();

  void Write(std::string head, std::string body = {}, std::string tail = {});
  void WriteMore();
  void OnWritten(IoError error, std::size_t count);

  void ReportProgress(std::size_t count);
  void Linger();
  void Close();
  void Arm(boost::asio::steady_timer& timer, std::chrono::milliseconds after,
           void (Session::*expired)());
  void OnWriteTimer() { Close(); }
  void OnLingerTimer() { Close(); }
  template <class Work>
  void Post(Work work);

  SessionHost& host_;
  Strand strand_;
  const std::unique_ptr<Transport> transport_;
  const std::string remote_;
  std::string client_name_;
  State state_ = State::kHandshake;
  std::atomic<bool> closed_ = false;

  RequestReader reader_;
  RequestReader::Phase timed_phase_ = RequestReader::Phase::kIdle;
  bool timing_ = false;
  std::vector<char> read_buffer_;
  bool reading_ = false;
  bool peer_closed_ = false;
  bool refused_ = false;
  std::size_t discarded_ = 0;
  boost::asio::steady_timer read_timer_;

  // Of the request at hand.
  bool keep_alive_ = false;
  bool http_1_0_ = false;
  bool head_only_ = false;
  std::stop_source request_stop_;

  std::array<std::string, Transport::kMaxPieces> out_;
  std::size_t out_sent_ = 0;
  bool writing_ = false;
  boost::asio::steady_timer write_timer_;

  std::shared_ptr<StreamCore> core_;
  Framing framing_ = Framing::kLength;
  bool upgraded_ = false;
  std::size_t stream_left_ = 0;  // with kLength: bytes still owed
};

}  // namespace paddleop::net::internal
