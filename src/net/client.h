// Client: a small blocking HTTP/1.1 client, for the command line (`weir ready`, `weir chat`, `weir top`) and for
// threads that may wait (the one that exports spans). Not for shards: it blocks. One connection per request; TCP or a
// unix socket; TLS where the options say so.
#pragma once

#include <functional>
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
    HeaderList fields;                                  // of every request
  };
  Client(std::string_view address, Options options);

  // Called with each piece of a body as it comes. False: no more of it is wanted, and the request ends well.
  using OnPiece = std::function<bool(std::string_view piece)>;

  // `target` is the path with its query: "/v2/models/digits". Errors: INVALID_ARGUMENT (address), UNAVAILABLE (nobody
  // listens, the connection or TLS broke), DEADLINE_EXCEEDED, CANCELLED, RESOURCE_EXHAUSTED (the reply is too large),
  // INTERNAL (what came back is not HTTP). A reply of any status is no error.
  base::Result<Reply> request(std::string_view method, std::string_view target, const HeaderList& fields = {},
                              std::string_view body = {}) const;
  // The same for an answer without an end in sight. A body below status 300 goes to `on_piece` and is not kept; the
  // timeout is that of each wait for more of it.
  base::Result<Reply> stream(std::string_view method, std::string_view target, const HeaderList& fields,
                             std::string_view body, const OnPiece& on_piece) const;

 private:
  class Answer;
  base::Result<BlockingStream> send(std::string_view method, std::string_view target, const HeaderList& fields,
                                    std::string_view body, uint64_t most) const;
  base::Result<Reply> receive(BlockingStream& stream, std::string_view method, Answer& answer) const;

  std::string address_;
  Options options_;
};

}  // namespace weir::net
