// Guard: protects the server against floods on one HTTP/2 connection, as pure arithmetic: no nghttp2, no I/O, no clock.
//
// H2Receiver checks that a peer keeps the protocol; the Guard limits how much work it may cause. The session shows it
// the head of every frame that arrives (frame()) and of every frame that is sent (sent()). The first excess becomes the
// Verdict, with which the connection ends. Numbers: wire/limits.h. They follow Envoy's flood protection (PRIORITY,
// WINDOW_UPDATE, empty frames, premature resets), gRPC's ping strikes and nginx's ratio of overhead.
//
// Control frames in proportion to traffic are no flood. gRPC's clients measure the bandwidth: they send a PING per
// round trip while data comes in, and a SETTINGS frame each time that they widen their windows. So the frames that we
// send and the payload of both sides earn PINGs and SETTINGS (EarnedFrames); only frames that are not earned are taken
// from the buckets. Two kinds of resets are not counted: those of a stream that has been answered, which cost no more
// than its request did, and those at a deadline that the client has set, since its stream was open until then anyway.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.h"
#include "wire/h2_frame.h"
#include "wire/limits.h"

namespace weir::wire {

// Why a connection has to end.
struct Verdict {
  std::string_view reason;  // of wire/limits.h; empty: no verdict
  H2Error code = H2Error::kNone;
  std::string_view text;  // the GOAWAY's debug data

  explicit operator bool() const { return !reason.empty(); }
};

// A token bucket for one thread: holds `burst` tokens, and gets `per_second` more. (base::TokenBucket is for any
// thread.)
class TokenBucket {
 public:
  TokenBucket(Limits::Bucket bucket, base::Time now) : bucket_(bucket), tokens_(bucket.burst), at_(now) {}
  bool take(base::Time now);  // false: there was none
  void put_back() { tokens_ = tokens_ + 1 < bucket_.burst ? tokens_ + 1 : bucket_.burst; }

 private:
  Limits::Bucket bucket_;
  double tokens_;
  base::Time at_;
};

// Counts the control frames that a peer has earned by its traffic and may send beside a bucket. It keeps `most` at
// most, so that an hour of traffic does not permit a flood.
class EarnedFrames {
 public:
  explicit EarnedFrames(uint32_t most) : most_(most) {}
  void earn(uint32_t n) { left_ += n < most_ - left_ ? n : most_ - left_; }
  bool spend() { return left_ > 0 && left_-- > 0; }

 private:
  uint32_t most_;
  uint32_t left_ = 0;
};

// Field count and bytes of one header block.
class HeaderBudget {
 public:
  enum class Fit : uint8_t { kYes, kSoft, kHard };
  Fit add(const Limits& limits, size_t name, size_t value);
  void clear() { *this = {}; }
  bool over() const { return over_; }  // past the soft limit
  uint32_t fields() const { return fields_; }
  uint32_t bytes() const { return bytes_; }

 private:
  uint32_t fields_ = 0;
  uint32_t bytes_ = 0;
  bool over_ = false;
};

// Stream ids that a client has skipped: opening one later is a protocol error. Keeps the
// youngest 32 gaps; most clients make none, and take no memory for them. Throws bad_alloc.
class SkippedIds {
 public:
  bool open(int32_t id);  // false: it lies in a gap
  int32_t last() const { return last_; }

 private:
  struct Gap {
    int32_t from = 0, to = 0;
  };
  static constexpr uint32_t kMost = 32;
  std::vector<Gap> gaps_;
  uint32_t made_ = 0;
  int32_t last_ = -1;
};

class Guard {
 public:
  // The connection is one client's, or a proxy's that is trusted to ask for many.
  enum class Clients : uint8_t { kOne, kMany };
  Guard(const Limits& limits, base::Time now, Clients clients = Clients::kOne);

  // A frame has begun to arrive. False: there is a verdict now.
  bool frame(const FrameHead& head, base::Time now);
  // The peer made us send a reset, or sent a frame that is invalid in itself.
  bool glitch(base::Time now);
  // The peer has reset a stream of which a body, or the whole answer, has been given; or which is past its own
  // deadline.
  void reset_was_fair() { resets_.put_back(); }
  // A stream is over, with its whole answer in the output. The peer may have reset it meanwhile: that one is fair, too.
  void stream_finished() { earned_resets_.earn(1); }
  void finished_was_reset() {
    if (earned_resets_.spend()) resets_.put_back();
  }
  // A stream was reset by its peer. Premature: young, and nothing had been answered.
  enum class Life : uint8_t { kUseful, kPremature };
  bool stream_closed(Life life);
  // Something else has gone too far, or has broken a rule.
  void condemn(Verdict verdict);

  // Frames that we wrote. Answers to the peer's control frames count as outbound control until the socket has them.
  bool sent(const FrameHead& head);
  // The socket has taken everything; or everything that was written before the last call of one of the two.
  void drained() { outbound_before_ = outbound_since_ = 0; }
  void passed() { outbound_before_ = std::exchange(outbound_since_, 0); }

  const Verdict& verdict() const { return verdict_; }
  bool settings_acked() const { return settings_acked_; }
  // Time limits that do not depend on streams: the ACK of our SETTINGS.
  bool check(base::Time now);
  // The read has begun more requests than one may; the one too many counts for the next.
  bool enough() const { return requests_ > limits_.requests_per_read; }
  void new_read() { requests_ = enough() ? 1 : 0; }

 private:
  static Limits::Bucket resets_of(const Limits& limits, Clients clients);
  bool fail(std::string_view reason, std::string_view text, H2Error code = H2Error::kEnhanceYourCalm);
  bool headers(const FrameHead& head);
  void moved(uint32_t payload);
  bool settings(base::Time now);
  bool ping(base::Time now);
  bool control(const FrameHead& head, base::Time now);
  bool empty(const FrameHead& head);

  const Limits& limits_;
  Verdict verdict_;
  base::Time began_;
  TokenBucket resets_, glitches_, pings_, settings_;
  EarnedFrames earned_pings_, earned_settings_, earned_resets_;
  uint64_t moved_ = 0;  // payload of DATA, both ways
  SkippedIds ids_;
  bool settings_acked_ = false;
  uint8_t ping_strikes_ = 0;
  uint32_t requests_ = 0;
  uint32_t empty_run_ = 0, continuations_ = 0;
  uint32_t outbound_before_ = 0, outbound_since_ = 0;  // of passed()
  uint64_t streams_ = 0, closed_ = 0, premature_ = 0;
  uint64_t priorities_ = 0, window_updates_ = 0, data_sent_ = 0;
  uint64_t total_ = 0, payload_ = 0;  // bytes of all frames, both ways, and of HEADERS and DATA alone
  base::Time last_ping_ = base::kNever;
};

}  // namespace weir::wire
