// H2Bodies: the bodies of the requests of one HTTP/2 connection: into memory or to listeners, as the plan says; flow
// control of what is received; refusals; how slowly they may come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "wire/h2_connection.h"
#include "wire/h2_frame_reader.h"
#include "wire/h2_stream_table.h"

namespace weir::wire {

class H2Bodies {
 public:
  H2Bodies(H2Connection& connection, H2StreamTable& streams) : connection_(connection), streams_(streams) {}

  // The Intake has seen the head, and `plan` is what it said.
  void begin(H2Exchange& x, Plan plan);
  // DATA begins; a piece of it, content or padding, has come.
  void begin_data(const H2FrameReader& from);
  void take(const H2FrameReader& from, H2FrameReader::Step kind);
  // Where to read the next bytes of the stream's body, or empty (Codec::receive_buffer()).
  std::span<std::byte> receive_buffer(int32_t stream);
  // The request is whole.
  void end(H2Exchange& x);
  // An answer of the codec's own, in place of a service's; what comes of the body is dropped.
  void refuse(H2Exchange& x, int status, std::string_view reason, std::string_view text);

  // From tick(), before the streams are looked at.
  void check_pace();
  // From tick(): bodies that wait for memory, have lost it, or come too slowly. False: the stream was reset.
  bool check(H2Exchange& x);

 private:
  void content(H2Exchange& x, std::span<const std::byte> piece);
  void behind_answer(H2Exchange& x, size_t n);
  void end_of_data(H2Exchange& x);
  bool collect(H2Exchange& x, uint64_t limit);
  void send_continue(H2Exchange& x);
  void collected(H2Exchange& x, RequestBody::State state);
  void settle_lost(H2Exchange& x);
  void retry(H2Exchange& x);

  H2Connection& connection_;
  H2StreamTable& streams_;
};

}  // namespace weir::wire
