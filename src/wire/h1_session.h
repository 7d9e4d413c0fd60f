// H1Session: an HTTP/1.0 and 1.1 server connection (RFC 9112), without I/O.
//
//   h1_reader.h    from bytes to requests
//   h1_exchange.h  from a response to bytes
//   h1_queue.h     whose turn it is among pipelined requests
//   here           time limits, drain, the end
//
// A client that shuts down its sending side is taken to have left: answers that are complete still go out, calls that
// are running are cancelled (as nginx does), for a computation is dear.
#pragma once

#include "wire/codec.h"
#include "wire/h1_connection.h"
#include "wire/h1_queue.h"
#include "wire/h1_reader.h"

namespace weir::wire {

class H1Session final : public Codec {
 public:
  H1Session(const CodecEnv& env, Wire& wire, const PeerInfo& peer);

  void feed(std::span<const std::byte> bytes) override;
  std::span<std::byte> receive_buffer() override { return reader_.receive_buffer(); }
  void eof() override;
  void closed() override;
  size_t pending(std::span<iovec> out) override { return connection_.output.gather(out); }
  void consumed(size_t n) override;
  bool wants_read() const override { return !reader_.held_back(); }
  bool finished() const override { return connection_.closing && connection_.output.empty(); }
  bool idle() const override { return quiet() && reader_.between_requests(); }
  void tick(base::Time now) override;
  void drain(Drain step) override;
  std::string_view protocol() const override { return "h1"; }

 private:
  bool quiet() const { return queue_.empty() && reader_.waiting() == 0 && connection_.output.empty(); }
  void check_output(base::Time now);
  void check_idle(base::Time now);
  void note_output(uint64_t before);
  void go_on_if_paused();

  H1Connection connection_;
  H1Reader reader_;
  H1Queue queue_;
};

}  // namespace weir::wire
