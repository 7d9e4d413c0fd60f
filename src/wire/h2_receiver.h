// H2Receiver: from the frames of one HTTP/2 connection to Exchanges: heads, bodies, flow control of what is received.
//
// The on_… functions are called by libnghttp2 inside H2Session's call of it; NGHTTP2_ERR_CALLBACK_FAILURE means that
// there is a verdict with the Guard. Services may be called from here; what they answer is kept in their Exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <nghttp2/nghttp2.h>

#include "wire/h2_connection.h"
#include "wire/h2_known_heads.h"
#include "wire/h2_stream_table.h"

namespace weir::wire {

class H2Receiver {
 public:
  H2Receiver(H2Connection& connection, H2StreamTable& streams) : connection_(connection), streams_(streams) {}

  int on_begin_headers(const nghttp2_frame& frame);
  int on_header(std::string_view name, std::string_view value);
  int on_frame(const nghttp2_frame& frame);
  int on_data(int32_t stream, std::span<const std::byte> piece);
  // Where the bytes of a stream that come next will lie, where that is known (Codec::landing()).
  std::span<std::byte> landing(int32_t stream);
  int on_stream_close(int32_t stream);
  int on_invalid_frame(int lib_error);

  // The head that the library is given next stands for one that came before.
  void repeat_head(const H2KnownHeads::Head& head) { repeated_ = &head; }
  // The head that it is given next is `block`, and is to be learned.
  void learn_head(H2KnownHeads& known, std::string_view block) { known_ = &known, block_ = block; }
  // It has been given: neither holds for others.
  void read_head() { repeated_ = nullptr, known_ = nullptr; }

  // From tick(), before the streams are looked at.
  void check_pace();
  // From tick(): bodies that wait for memory, have lost it, or come too slowly. False: the stream was reset.
  bool check(H2Exchange& x);

 private:
  void open_head(int32_t stream);
  void pseudo_field(Request& request, std::string_view name, std::string_view value);
  void field(H2Exchange& x, std::string_view name, std::string_view value);
  void stream_was_reset(H2Exchange& x);
  void begin_request(H2Exchange& x);
  bool check_head(H2Exchange& x);
  bool take_head(H2Exchange& x);
  bool take_authority(H2Exchange& x);
  void reject(H2Exchange& x, int status, std::string_view reason, std::string_view text);
  void plan_body(H2Exchange& x, Plan plan);
  bool collect_body(H2Exchange& x, uint64_t limit);
  void send_continue(H2Exchange& x);
  void request_end(H2Exchange& x);
  void collected(H2Exchange& x, RequestBody::State state);
  void settle_lost(H2Exchange& x);
  void retry_body(H2Exchange& x);
  void refuse(H2Exchange& x, int status, std::string_view reason, std::string_view text);

  H2Connection& connection_;
  H2StreamTable& streams_;
  H2Exchange* heading_ = nullptr;  // whose fields are arriving
  bool trailers_ = false;          // they are trailers
  HeaderBudget nobodys_;           // fields of a stream that has no Exchange
  SharedPace pace_;                // of the bodies
  const H2KnownHeads::Head* repeated_ = nullptr;
  H2KnownHeads* known_ = nullptr;
  std::string_view block_;
};

}  // namespace weir::wire
