#pragma once

#include <memory>
#include <string>

#include "net/http_client.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::object {

struct HdfsOptions {
  std::string endpoint = {};  // "http://HOST:PORT" of a name node's web server
  std::string user = {};      // who asks; HDFS believes it unless it uses Kerberos
};

// Files of HDFS over WebHDFS, to import from: keys are paths without the first '/'. For reading,
// and deleting; nothing is written. `http` must follow redirects: data comes from the data nodes.
//
// WebHDFS has no conditional read, so GetOptions::if_match costs one more request: the file's
// length, time and id are compared after its bytes have arrived.
std::unique_ptr<ObjectStore> NewHdfsStore(HdfsOptions options,
                                          std::unique_ptr<net::HttpClient> http);

}  // namespace paddleop::volume::object
