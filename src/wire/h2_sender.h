// H2Sender: from Exchanges to the frames of one HTTP/2 connection and to its socket. All that the streams have to say
// is gathered together in fill(), streams taking turns, up to a limit; the rest waits in its stream for the socket.
//
// An Exchange has been sent when the socket has taken its last byte: the output is marked where bodies end in it.
#pragma once

#include <cstddef>
#include <cstdint>

#include <nghttp2/nghttp2.h>

#include "wire/fifo.h"
#include "wire/h2_answer_fields.h"
#include "wire/h2_connection.h"
#include "wire/h2_output.h"
#include "wire/h2_stream_table.h"

namespace weir::wire {

class H2Sender {
 public:
  H2Sender(H2Connection& connection, H2StreamTable& streams)
      : connection_(connection), streams_(streams), fields_(connection) {}

  // Called by the library (h2_callbacks.h). The next bytes of a body: how many, at most `max`.
  ssize_t read_body(H2Exchange& x, size_t max, uint32_t& flags);
  // A DATA frame with `n` bytes of the body goes into the output.
  int send_body(H2Exchange& x, const uint8_t* head, size_t n);
  ssize_t frame_size(int32_t stream, uint32_t max_frame) const;
  int on_frame_sent(const nghttp2_frame& frame);
  int on_frame_not_sent(const nghttp2_frame& frame);

  // Frames of all streams into the output, up to its target size.
  void fill();
  // The socket has taken the first `n` bytes of the output.
  void consumed(size_t n);
  // The peer takes no more output: the responses in it have failed.
  void drop_output();
  void send_goaway(const Verdict& verdict);
  // Gives memory back that only answers need.
  void shrink() {
    output_.shrink();
    marks_.shrink();
    fields_.drop();
  }
  H2Output& output() { return output_; }
  const H2Output& output() const { return output_; }

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

  void submit_touched();
  void submit_head(H2Exchange& x);
  void put_frame(const uint8_t* at, size_t n);
  void put_known_head(const H2Exchange& x, const uint8_t* frame, size_t n);
  void put_head(uint8_t flags, int32_t stream, std::string_view block);
  void head_sent(const nghttp2_headers& head);
  void end_stream_sent(const nghttp2_frame_hd& head);
  void reset_sent(int32_t stream, uint32_t code);
  void goaway_sent(uint32_t code);
  void mark(H2Exchange& x, size_t bytes, bool end);
  void pass_marks();
  bool socket_is_slow() const;
  void check_window(bool waiting, const DrainFloor& floor);
  void pass_mark(const Mark& mark);

  H2Connection& connection_;
  H2StreamTable& streams_;
  H2Output output_;
  Fifo<Mark> marks_;
  uint64_t control_mark_ = 0;      // where the output ended at the Guard's last passed()
  H2Exchange* ending_ = nullptr;   // its END_STREAM is in the frame that is being sent
  H2Exchange* known_ = nullptr;    // that frame is a head with a known block
  H2KnownBlocks::Ref trailers_{};  // the block of those that follow the DATA that is being sent
  bool goaway_sent_ = false;
  OutputFloor drain_floor_;  // of the socket
  RateFloor window_floor_;   // of the connection's window: DATA alone takes from it
  H2AnswerFields fields_;
};

}  // namespace weir::wire
