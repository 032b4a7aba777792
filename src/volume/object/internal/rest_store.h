#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "net/http_client.h"
#include "volume/object/object_store.h"

namespace paddleop::volume::object::internal {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// One request to a store, before it has an address and a signature.
struct RestCall {
  std::string_view verb = {};  // for messages: "get", "put", ...
  std::string method = "GET";
  std::string key = {};                  // empty: the bucket itself
  Pairs query = {};                      // not encoded, any order
  Pairs headers = {};                    // lower-case names
  std::string text = {};                 // a small body
  std::span<const std::byte> data = {};  // or one of the caller's, not copied
  bool checked = false;                  // what is received, against what its writer recorded

  std::span<const std::byte> body() const;
};

struct ListPage {
  std::vector<ObjectInfo> entries = {};  // in key order
  bool truncated = false;
  std::string token = {};  // for the next page, if truncated
};

// What S3 and its likes have in common: objects are resources of HTTP, metadata are headers. A
// dialect adds addresses and signatures, the form of its errors, and the bodies of the few calls
// that have one.
//
// Thread-safe, as far as the dialect's hooks are.
class RestStore : public ObjectStore {
 public:
  // How a dialect spells the headers they all have.
  struct Headers {
    std::string meta_crc32c;    // "x-amz-meta-crc32c"
    std::string copy_source;    // "x-amz-copy-source"
    std::string storage_class;  // "x-amz-storage-class"
  };

  Result<GetResult> Get(const Context& ctx, std::string_view key, const GetOptions& options,
                        std::span<std::byte> out) override;
  Result<void> Put(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                   const PutOptions& options) override;
  Result<void> Delete(const Context& ctx, std::string_view key) override;
  Result<std::vector<KeyError>> DeleteMany(const Context& ctx,
                                           std::span<const std::string> keys) override;
  Result<ObjectInfo> Head(const Context& ctx, std::string_view key) override;
  Result<void> List(const Context& ctx, const ListOptions& options,
                    const ListVisitor& visit) override;
  Result<void> Copy(const Context& ctx, std::string_view from, std::string_view to) override;
  Result<std::string> CreateUpload(const Context& ctx, std::string_view key,
                                   const PutOptions& options) override;
  Result<UploadedPart> UploadPart(const Context& ctx, std::string_view key,
                                  const std::string& upload, int number,
                                  std::span<const std::byte> data) override;
  Result<void> CompleteUpload(const Context& ctx, std::string_view key, const std::string& upload,
                              std::span<const UploadedPart> parts) override;
  Result<void> AbortUpload(const Context& ctx, std::string_view key,
                           const std::string& upload) override;
  void StartGet(const Context& ctx, std::string_view key, const GetOptions& options,
                std::span<std::byte> out, GetDone done) override;
  void StartPut(const Context& ctx, std::string_view key, std::span<const std::byte> data,
                const PutOptions& options, Done done) override;
  void StartDelete(const Context& ctx, std::string_view key, Done done) override;
  std::chrono::steady_clock::duration RetryAfter() const override;

 protected:
  RestStore(std::unique_ptr<net::HttpClient> http, Headers headers, Clock& clock);
  ~RestStore() override;

  // Ends what is in flight. A dialect's destructor calls it, while its hooks still can be.
  void Close();

  // URL and headers, with the signature; the body is added by the caller.
  virtual net::HttpRequest Address(const RestCall& call) const = 0;
  // The error behind a status outside 2xx, or behind a success that is none.
  virtual Status ErrorOf(const RestCall& call, const net::HttpResponse& response) const = 0;
  // Takes in what an answer tells about the bucket's region or the server's time. True if the same
  // call may now work.
  virtual bool Learn(const net::HttpResponse& response) = 0;
  // For answers with status 200: whether the body is an error all the same.
  virtual bool HidesError(const net::HttpResponse& response) const = 0;

  virtual RestCall ListCall(const ListOptions& options, std::uint64_t limit,
                            const std::string& token) const = 0;
  virtual Result<ListPage> ParseList(std::string_view body) const = 0;
  // The path of an object in a copy source header.
  virtual std::string CopySource(std::string_view key) const = 0;
  virtual Result<std::string> ParseUploadId(std::string_view body) const = 0;
  virtual std::string CompleteBody(std::span<const UploadedPart> parts) const = 0;
  // Whether the key can stand in the body of a DeleteCall.
  virtual bool CanDeleteTogether(std::string_view key) const = 0;
  virtual RestCall DeleteCall(std::span<const std::string> keys) const = 0;
  virtual Result<std::vector<KeyError>> ParseDelete(std::string_view body) const = 0;

  // The answer, whatever its status. Says it again once if the store has learnt something.
  Result<net::HttpResponse> Exchange(const Context& ctx, const RestCall& call);
  // The answer if it is a success; the store's error otherwise.
  Result<net::HttpResponse> Do(const Context& ctx, const RestCall& call);
  // "get s3://bucket/key".
  std::string Describe(const RestCall& call) const;

 private:
  struct PendingGet;

  net::HttpRequest Request(const RestCall& call) const;
  Result<net::HttpResponse> Accept(const RestCall& call, Result<net::HttpResponse> response);
  void NoteRetryAfter(const net::HttpResponse& response);

  Result<RestCall> GetCall(std::string_view key, const GetOptions& options) const;
  Result<GetResult> FinishGet(const RestCall& call, const GetOptions& options,
                              Result<net::HttpResponse> response, std::size_t received);
  Result<RestCall> PutCall(std::string_view key, std::span<const std::byte> data,
                           const PutOptions& options) const;
  void AddPutHeaders(RestCall& call, const PutOptions& options) const;
  Result<void> CheckKey(std::string_view verb, std::string_view key) const;
  void DeleteTogether(const Context& ctx, std::span<const std::string> keys,
                      std::vector<KeyError>& failed);
  void StartCall(const Context& ctx, Result<RestCall> call, Done done);
  void Send(std::shared_ptr<PendingGet> pending);
  // Whether to say it again: the store learnt something, and nobody is closing it.
  bool TryAgain(const Result<net::HttpResponse>& response, const std::function<void()>& again);

  std::unique_ptr<net::HttpClient> http_;
  const Headers headers_;
  Clock& clock_;
  std::atomic<std::chrono::steady_clock::rep> not_before_{0};
  Mutex closing_mutex_;  // held while a callback uses http_, which Close() takes away
  bool closing_ GUARDED_BY(closing_mutex_) = false;
};

// Percent-encoded and sorted, as signatures want it and URLs allow it.
std::string EncodeQuery(const Pairs& query);
// An etag without its quotes.
std::string EtagOf(const net::HttpResponse& response);

}  // namespace paddleop::volume::object::internal
