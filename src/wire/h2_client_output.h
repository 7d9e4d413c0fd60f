// H2ClientOutput: what one HTTP/2 connection of ours sends: heads at once, bodies as far as the server's windows and
// the socket go, streams taking turns, and control frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <sys/uio.h>

#include "wire/fifo.h"
#include "wire/h2_client_encoder.h"
#include "wire/h2_client_streams.h"
#include "wire/h2_frame.h"
#include "wire/h2_frame_writer.h"

namespace weir::wire {

class H2ClientOutput {
 public:
  // The server may make us owe so many answers to its PING and SETTINGS frames at once.
  static constexpr uint32_t kMostAcks = 200;
  // No further request is sent while so many bytes wait for the socket.
  static constexpr size_t kMostWaiting = 1 << 20;

  // The streams are borrowed.
  explicit H2ClientOutput(H2ClientStreams& streams) : streams_(streams) {}

  // The connection's first bytes.
  void open(std::span<const H2FrameWriter::Setting> settings);
  // The head of the stream's request, and of its body what can go. False: it cannot be encoded, nor can any after it.
  bool send(ClientStream& stream, const ClientRequest& request);
  void window_update(int32_t id, int64_t by) { frames_.window_update(id, uint32_t(by)); }
  void reset(int32_t id, uint32_t code) { frames_.reset(id, code); }
  // No stream of the server's was ever there.
  void goaway(uint32_t code) { frames_.goaway(0, code, {}); }
  // The answer to a PING with that payload, or to SETTINGS. False: the server makes us owe too many.
  bool acknowledge(H2Frame type, std::string_view payload);

  bool full() const { return frames_.output.size() >= kMostWaiting; }

  // Settings and windows of the server. False: a window would be larger than there are.
  // set_first_window() looks at all streams.
  bool set_first_window(uint32_t bytes);
  void set_largest_frame(uint32_t bytes);
  bool resize_table(uint32_t bytes) { return encoder_.resize_table(bytes); }
  bool widen(uint32_t by);
  bool widen(ClientStream& stream, uint32_t by);

  // More of the bodies, as much as is gathered ahead of the socket. `over` gets those whose answers had ended before.
  void fill(std::vector<int32_t>& over);
  size_t gather(std::span<iovec> out) { return frames_.output.gather(out); }
  void consumed(size_t n);

 private:
  static constexpr int64_t kFirstWindow = 65'535, kLargestWindow = 0x7fffffff;  // RFC 9113 §6.9

  bool put_small(ClientStream& stream, std::string_view block, const base::Bytes& body);
  void queue(ClientStream& stream);
  void forget_gone();
  bool send_data(ClientStream& stream);
  void put_data(ClientStream& stream, size_t n);

  H2ClientStreams& streams_;
  H2FrameWriter frames_;
  H2ClientEncoder encoder_;
  Fifo<int32_t> turns_;  // of streams with a body to send
  int64_t window_ = kFirstWindow, first_window_ = kFirstWindow;
  uint32_t largest_frame_ = 1 << 14;
  uint32_t acks_ = 0;      // that may not have left
  uint64_t ack_mark_ = 0;  // where the output ended when they were last counted anew
};

}  // namespace weir::wire
