// Fetcher: gets the bytes that a URI names, for rooms without sockets. net::WebFetcher is the one in production. One
// per shard, on its thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/env.h"
#include "base/status.h"

namespace weir::wire {

// The rules of what may be fetched on behalf of clients.
struct FetchRules {
  std::vector<std::string> schemes;  // "http", "https"; none: nothing is fetched
  // "example.com", "*.example.com" (names below it), "*" (any), each with ":port" or for the scheme's own port only.
  std::vector<std::string> hosts;
  std::vector<std::string> networks;  // that may be reached although they are not public: "10.1.0.0/16", "fd00::1"
  std::string ca_file;                // whom to believe about https; empty: whom the system believes
  base::Duration timeout = std::chrono::seconds(10);  // of one fetch, from its turn to its end
};

class Fetcher {
 public:
  virtual ~Fetcher() = default;

  // The receiver of the bytes; it outlives its Fetch.
  class Receiver {
   public:
    // The fetch holds `held` bytes now. False: that is too much, and it ends with RESOURCE_EXHAUSTED.
    virtual bool on_growth(uint64_t held) = 0;
    // Called once, unless the Fetch is destroyed before; it may be destroyed from inside. The texts of errors are for
    // the client: they name no address. Codes: PERMISSION_DENIED, NOT_FOUND, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED,
    // UNAVAILABLE.
    virtual void on_fetched(base::Result<base::Bytes> bytes) = 0;

   protected:
    ~Receiver() = default;
  };
  // Destroying it ends the fetch.
  class Fetch {
   public:
    virtual ~Fetch() = default;
  };

  // Begins a fetch; the receiver is called later, never from inside. Errors: INVALID_ARGUMENT (no URI that can be
  // fetched), PERMISSION_DENIED (its scheme is off, its host or port not allowed).
  virtual base::Result<std::unique_ptr<Fetch>> fetch(std::string_view uri, Receiver& receiver) = 0;
};

}  // namespace weir::wire
