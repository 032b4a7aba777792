#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "net/http_server.h"
#include "volume/object/credentials.h"
#include "volume/object/testing/mem_object.h"

namespace paddleop::volume::object::testing {

// What stands in for BOS, which nobody can run at home: as much of its protocol as its SDK and our
// store use, with every signature checked. Buckets named "public-..." let everybody read.
class BosStandIn {
 public:
  BosStandIn();

  // "http://127.0.0.1:1234".
  std::string endpoint() const;
  const Credentials& credentials() const { return credentials_; }

 private:
  struct Call;
  using Response = net::ServerResponse;

  Response Handle(const Context& ctx, const net::ServerRequest& request);
  bool IsSigned(const net::ServerRequest& request, const Call& call) const;
  std::shared_ptr<MemObjectStore> Bucket(const std::string& name);

  Response OnBucket(const Context& ctx, const net::ServerRequest& request, const Call& call);
  Response OnObject(const Context& ctx, const net::ServerRequest& request, const Call& call,
                    MemObjectStore& store);
  Response OnRead(const Context& ctx, const net::ServerRequest& request, const Call& call,
                  MemObjectStore& store);
  Response OnPut(const Context& ctx, const net::ServerRequest& request, const Call& call,
                 MemObjectStore& store);
  Response OnPost(const Context& ctx, const net::ServerRequest& request, const Call& call,
                  MemObjectStore& store);
  Response List(const Context& ctx, const Call& call, MemObjectStore& store);

  const Credentials credentials_{.access_key = "standin-access",
                                 .secret_key = Secret("standin/secret+key")};
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<MemObjectStore>> buckets_ GUARDED_BY(mutex_);
  std::unique_ptr<net::HttpServer> server_;
};

}  // namespace paddleop::volume::object::testing
