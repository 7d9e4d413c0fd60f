// Client: a small blocking HTTP/1.1 client, for the command line (`weir ready`, `weir models`, `weir load`) and for
// threads that may wait (the one that exports spans). Not for shards: it blocks. One connection per request; TCP or a
// unix socket; TLS where the options say so.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "net/blocking_stream.h"

namespace weir::net {

class Client {
 public:
  using HeaderList = std::vector<std::pair<std::string, std::string>>;
  struct Reply {
    int status = 0;
    HeaderList fields;  // names in lower case
    std::string body;

    std::string_view find(std::string_view name) const;  // empty when there is none
  };
  static constexpr size_t kLargestReply = size_t(1) << 30;

  // `address` as ListenAddress: "127.0.0.1:8080", "localhost:8080", "unix:/run/weir.sock"; "http://" before it and a
  // slash after it are tolerated. `timeout` bounds each whole request.
  Client(std::string_view address, base::Duration timeout);
  struct Options {
    base::Duration timeout = std::chrono::seconds(10);  // of each whole request, but for looking up its name
    uint64_t largest_reply = kLargestReply;             // bytes of its body
    std::shared_ptr<const TlsContext> tls;              // TlsContext::for_client(); null: cleartext
    std::string tls_host;                               // whose certificate it must be: a name or an address
    const Interrupt* interrupt = nullptr;               // ends a request: CANCELLED; outlives the Client
  };
  Client(std::string_view address, Options options);

  // `target` is the path with its query: "/v2/models/digits". Errors: INVALID_ARGUMENT (address), UNAVAILABLE (nobody
  // listens, the connection or TLS broke), DEADLINE_EXCEEDED, CANCELLED, RESOURCE_EXHAUSTED (the reply is too large),
  // INTERNAL (what came back is not HTTP). A reply of any status is no error.
  base::Result<Reply> request(std::string_view method, std::string_view target, const HeaderList& fields = {},
                              std::string_view body = {}) const;

 private:
  std::string head_of(std::string_view method, std::string_view target, const HeaderList& fields,
                      std::string_view body) const;
  std::string address_;
  Options options_;
};

}  // namespace weir::net
