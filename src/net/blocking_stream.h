// BlockingStream: a connected socket, with TLS or without, for threads that may wait. Each wait ends at a deadline, or
// when another thread asks.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/status.h"
#include "net/fd.h"
#include "net/tls.h"

namespace weir::net {

// Ends the waits of streams from another thread, for good.
class Interrupt {
 public:
  Interrupt();
  void raise();  // any thread
  int descriptor() const { return event_.get(); }

 private:
  Fd event_;
};

class BlockingStream {
 public:
  struct Options {
    base::Time deadline = base::kNever;     // of all that is done with it
    uint64_t most = uint64_t(1) << 33;      // bytes that may come in all
    std::shared_ptr<const TlsContext> tls;  // TlsContext::for_client(); null: cleartext
    std::string host;                       // with TLS: whose certificate it must be
    const Interrupt* interrupt = nullptr;   // or null
  };
  // `address` as ListenAddress. The name is looked up first, without a bound but the resolver's. Errors:
  // INVALID_ARGUMENT (address), UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED (interrupted).
  static base::Result<BlockingStream> connect(const std::string& address, Options options);
  // From now on the deadline is that one.
  void end_at(base::Time deadline) { options_.deadline = deadline; }

  // Errors: as connect(). A peer that has closed is none: its answer may be there already.
  base::Status send(std::string_view text);
  // Reads until `input` has more. False at the end of the stream. Errors: as connect(), RESOURCE_EXHAUSTED.
  base::Result<bool> more();

  std::string input;  // what has come; whoever reads erases it

 private:
  BlockingStream(Fd fd, Options options) : fd_(std::move(fd)), options_(std::move(options)) {}
  base::Status shake_hands();
  base::Status wait(short what);
  base::Status send_raw(std::string_view bytes);
  base::Status send_sealed();
  // 0: the peer has closed.
  base::Result<size_t> receive(char* into, size_t room);
  base::Status open_records(std::string_view bytes);

  Fd fd_;
  Options options_;
  std::unique_ptr<TlsSession> tls_;
  uint64_t received_ = 0;
};

}  // namespace weir::net
