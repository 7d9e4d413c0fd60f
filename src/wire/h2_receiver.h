// H2Receiver: from the frames of one HTTP/2 connection to Exchanges: the heads of requests, resets, invalid frames.
// Their bodies are h2_bodies.h's.
//
// The on_… functions are called by libnghttp2 inside H2Session's call of it; NGHTTP2_ERR_CALLBACK_FAILURE means that
// there is a verdict with the Guard. Services may be called from here; what they answer is kept in their Exchange.
#pragma once

#include <cstdint>
#include <string_view>

#include <nghttp2/nghttp2.h>

#include "wire/h2_bodies.h"
#include "wire/h2_connection.h"
#include "wire/h2_head_rules.h"
#include "wire/h2_known_heads.h"
#include "wire/h2_stream_table.h"

namespace weir::wire {

class H2Receiver {
 public:
  H2Receiver(H2Connection& connection, H2StreamTable& streams, H2Bodies& bodies)
      : connection_(connection), streams_(streams), bodies_(bodies) {}

  int on_begin_headers(const nghttp2_frame& frame);
  int on_header(std::string_view name, std::string_view value);
  int on_frame(const nghttp2_frame& frame);
  int on_stream_close(int32_t stream);
  int on_invalid_frame(int lib_error);

  // The head that the library is given next stands for one that came before.
  void repeat_head(const H2KnownHeads::Head& head) { repeated_ = &head; }
  // The head that it is given next is `block`, and is to be learned.
  void learn_head(H2KnownHeads& known, std::string_view block) { known_ = &known, block_ = block; }
  // It has been given: neither holds for others.
  void read_head() { repeated_ = nullptr, known_ = nullptr; }

 private:
  void open_head(int32_t stream);
  int on_head(const nghttp2_frame& frame);
  int on_last_data(int32_t stream);
  bool well_formed(const H2Exchange& x, bool ends) const;
  int malformed(int32_t stream);
  void pseudo_field(Request& request, std::string_view name, std::string_view value);
  void field(H2Exchange& x, std::string_view name, std::string_view value);
  void stream_was_reset(H2Exchange& x);
  void begin_request(H2Exchange& x);
  bool check_head(H2Exchange& x);
  bool take_head(H2Exchange& x);
  bool take_authority(H2Exchange& x);
  void reject(H2Exchange& x, int status, std::string_view reason, std::string_view text);

  H2Connection& connection_;
  H2StreamTable& streams_;
  H2Bodies& bodies_;
  H2Exchange* heading_ = nullptr;  // whose fields are arriving
  bool trailers_ = false;          // they are trailers
  H2HeadRules rules_;              // of them
  HeaderBudget nobodys_;           // fields of a stream that has no Exchange
  const H2KnownHeads::Head* repeated_ = nullptr;
  H2KnownHeads* known_ = nullptr;
  std::string_view block_;
};

}  // namespace weir::wire
