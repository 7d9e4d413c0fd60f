// Fetcher: bytes that a URI names somewhere else, as rooms without sockets see it. net::WebFetcher is the one in
// production.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"

namespace weir::base {

class Fetcher {
 public:
  // Who wants the bytes; outlives its Fetch.
  class Taker {
   public:
    // So many bytes are held for it now. False: too many, and the fetch ends with RESOURCE_EXHAUSTED.
    virtual bool on_growth(uint64_t held) = 0;
    // Once, unless the Fetch is destroyed before; it may be destroyed from inside. Errors are texts for the client:
    // they name no address. Codes: PERMISSION_DENIED, NOT_FOUND, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED, UNAVAILABLE.
    virtual void on_fetched(Result<Bytes> bytes) = 0;

   protected:
    ~Taker() = default;
  };
  // Destroying it ends the fetch.
  class Fetch {
   public:
    virtual ~Fetch() = default;
  };

  // Calls the taker later, never from inside. Errors: INVALID_ARGUMENT (no URI that could be fetched),
  // PERMISSION_DENIED (its scheme is off, its host or port not allowed).
  virtual Result<std::unique_ptr<Fetch>> fetch(std::string_view uri, Taker& taker) = 0;

 protected:
  ~Fetcher() = default;
};

}  // namespace weir::base
