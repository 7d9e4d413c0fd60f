// H2Sender: from Exchanges to the frames of one HTTP/2 connection and to its socket. All that the streams have to say
// is gathered together in fill(), streams taking turns, up to a limit; the rest waits in its stream for the socket.
//
// An Exchange has been sent when the socket has taken its last byte: the output is marked where bodies end in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "wire/fifo.h"
#include "wire/h2_connection.h"
#include "wire/h2_response_fields.h"
#include "wire/h2_stream_table.h"
#include "wire/h2_turns.h"

namespace weir::wire {

class H2Sender {
 public:
  H2Sender(H2Connection& connection, H2StreamTable& streams)
      : connection_(connection), streams_(streams), fields_(connection) {}

  // The stream's window is open: what waits for that has its turn to come.
  void queue(H2Exchange& x);
  // The client's SETTINGS_INITIAL_WINDOW_SIZE. False: a window would be larger than there are. Looks at all streams.
  bool set_first_window(int64_t bytes);

  // Frames of all streams into the output, up to its target size.
  void fill();
  // The socket has taken the first `n` bytes of the output.
  void consumed(size_t n);
  // The peer takes no more output: the responses in it have failed.
  void drop_output();
  // Gives memory back that only answers need.
  void shrink() {
    connection_.frames.output.shrink();
    marks_.shrink();
    turns_.shrink();
    fields_.drop();
    base::release(block_);
  }
  // Something waits that could be sent now.
  bool wants_write() const { return streams_.has_touched() || (!turns_.empty() && connection_.window > 0); }

  // From tick(). Resets the stream of a request whose answer is out and whose body is not awaited any longer.
  void check_unread(H2Exchange& x);
  // The client opens this stream's window too slowly: the stream is reset.
  void check(H2Exchange& x);
  // The client takes too little of what all streams share. True: the socket takes the output too slowly, and there is a
  // verdict. Where it is the connection's window, streams that wait for it are reset.
  bool check_shared();

 private:
  // A place in the output at which `bytes` of a response body, or all of it, have been taken.
  struct Mark {
    uint64_t at = 0;
    H2Exchange* exchange = nullptr;
    size_t bytes = 0;
    bool end = false;
  };

  void send_touched();
  void send(H2Exchange& x);
  void send_head(H2Exchange& x);
  bool send_whole(H2Exchange& x, std::string_view head);
  std::string_view block_of(H2ResponseFields::ToSend fields);
  void put_block(H2Exchange& x, uint8_t flags, std::string_view block);
  void take_turns();
  void send_data(H2Exchange& x, size_t n);
  void put_data(H2Exchange& x, size_t n);
  void send_end(H2Exchange& x);
  void count_data(H2Exchange& x, uint8_t flags, size_t n);
  void end_sent(H2Exchange& x);
  void fail(H2Exchange& x);
  void mark(H2Exchange& x, size_t bytes, bool end);
  void pass_marks();
  bool socket_is_slow();
  void check_window(bool waiting, const DrainFloor& floor);
  void pass_mark(const Mark& mark);

  H2Output& output() { return connection_.frames.output; }

  H2Connection& connection_;
  H2StreamTable& streams_;
  H2Turns turns_;  // of streams that have DATA to send, and a window for it
  Fifo<Mark> marks_;
  uint64_t control_mark_ = 0;  // where the output ended at the Guard's last passed()
  std::string block_;          // that was encoded last
  OutputFloor drain_floor_;    // of the socket
  RateFloor window_floor_;     // of the connection's window: DATA alone takes from it
  H2ResponseFields fields_;
};

}  // namespace weir::wire
