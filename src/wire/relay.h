// Relay: hands a call of a client on to another node of the cluster, which answers in this one's place. One per shard,
// on its thread. forward::NodeRelay is the one in production.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "wire/rpc.h"

namespace weir::wire {

// Field of a call that another node has handed on: it is not handed on again.
inline constexpr std::string_view kRelayed = "weir-relayed";

class Relay {
 public:
  enum class Source : uint8_t {
    kNode,       // the status is the node's own
    kTransport,  // the connection broke, or could not be made
  };
  class Receiver {
   public:
    virtual void on_message(base::Bytes message) = 0;
    // The node is held back until resume().
    virtual bool full() const = 0;
    // The last call; it may destroy the Call.
    virtual void on_over(base::Status status, Source source) = 0;

   protected:
    ~Receiver() = default;
  };
  class Call {
   public:
    virtual ~Call() = default;  // cancels it; nothing is called any more
    // Sends the message to the method at `path` ("/package.Service/Method") on behalf of rpc's client, for as long as
    // its deadline allows. The Receiver may be called from inside. Errors: UNAVAILABLE; then nothing is called.
    virtual base::Status start(Rpc& rpc, std::string_view path, const base::Bytes& message) = 0;
    virtual void resume() = 0;
  };

  virtual ~Relay() = default;
  // A call to the node at `url`. Errors: UNAVAILABLE: no such node is known.
  virtual base::Result<std::unique_ptr<Call>> make_call(const std::string& url, Receiver& receiver) = 0;
};

}  // namespace weir::wire
