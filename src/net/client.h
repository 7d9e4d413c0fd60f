// Client: a small blocking HTTP/1.1 client for the command line (`weir ready`, `weir models`, `weir load`). Not for
// shards: it blocks. One connection per request; cleartext; TCP or a unix socket.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/status.h"

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

  // `target` is the path with its query: "/v2/models/digits". Errors: INVALID_ARGUMENT (address), UNAVAILABLE (nobody
  // listens, the connection broke), DEADLINE_EXCEEDED, INTERNAL (what came back is not HTTP). A reply of any status is
  // no error.
  base::Result<Reply> request(std::string_view method, std::string_view target, const HeaderList& fields = {},
                              std::string_view body = {}) const;

 private:
  std::string address_;
  base::Duration timeout_;
};

}  // namespace weir::net
