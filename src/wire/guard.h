// Guard: what one HTTP/2 connection may cost us, as pure arithmetic. No nghttp2, no I/O, no clock.
//
// H2Receiver keeps a peer within the protocol; the Guard keeps it within reason. The session shows it every frame head
// that arrives (frame()), what it sends and what the peer made it send; the first thing that goes too far becomes the
// Verdict, and the connection ends with it. Formulas and numbers: wire/limits.h; they follow Envoy's flood protection
// (PRIORITY, WINDOW_UPDATE, empty frames, premature resets), gRPC's ping strikes and nginx's ratio of overhead.
//
// Control frames in proportion to traffic are no flood. gRPC's clients measure the bandwidth: a PING per round trip
// while data comes in, and a SETTINGS frame each time that they widen their windows. So our frames and the bytes that
// move earn PINGs and SETTINGS; only what is not earned comes out of the buckets. A reset of a stream that has been
// answered costs us no more than its request did, so it is not counted either, nor is one at the deadline that the
// client has set itself: until then its stream was one of those that it may have open.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/env.h"
#include "wire/limits.h"

namespace weir::wire {

// RFC 9113 §7.
enum class H2Error : uint32_t {
  kNone = 0,
  kProtocol = 1,
  kInternal = 2,
  kSettingsTimeout = 4,
  kStreamClosed = 5,
  kRefusedStream = 7,
  kCancel = 8,
  kEnhanceYourCalm = 11,
};

// RFC 9113 §4.1 and §6.
enum class H2Frame : uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kRstStream = 3,
  kSettings = 4,
  kPushPromise = 5,
  kPing = 6,
  kGoaway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};

// The nine octets before every frame, and what of the payload's beginning matters.
struct FrameHead {
  uint32_t length = 0;
  H2Frame type = H2Frame::kData;
  uint8_t flags = 0;
  int32_t stream = 0;
  bool only_padding = false;  // DATA whose payload is all padding
  int32_t depends_on = -1;    // PRIORITY: the stream that it names

  bool ack() const { return flags & 1; }         // SETTINGS, PING
  bool end_stream() const { return flags & 1; }  // DATA, HEADERS
  bool padded() const { return flags & 8; }      // DATA, HEADERS
};

// Why a connection has to end.
struct Verdict {
  std::string_view reason;  // of wire/limits.h; empty: no verdict
  H2Error code = H2Error::kNone;
  std::string_view text;  // the GOAWAY's debug data

  explicit operator bool() const { return !reason.empty(); }
};

// `burst` at once, refilled at `per_second`.
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

// Control frames that a peer may send for its ordinary traffic, beside a bucket. No more than `most` is kept, so that
// an hour of traffic is no licence for a flood.
class Credit {
 public:
  explicit Credit(uint32_t most) : most_(most) {}
  void earn(uint32_t n) { left_ += n < most_ - left_ ? n : most_ - left_; }
  bool spend() { return left_ > 0 && left_-- > 0; }

 private:
  uint32_t most_;
  uint32_t left_ = 0;
};

// How fast a peer must take its answer, and over which stretches of time that is looked at. A peer with large buffers
// takes nothing for a while, however steadily it reads: `credit` is how long it may, after it has taken more before.
struct DrainFloor {
  uint32_t rate;  // bytes per second
  base::Duration grace, credit;
};
inline constexpr base::Duration kDrainCredit = std::chrono::seconds(30);

// A floor under a transfer: once it has run for `grace`, each further stretch of `grace` must bring `rate` bytes a
// second. Many tiny steps are no progress, so a peer that drips cannot reset it.
class RateFloor {
 public:
  void start(base::Time now);  // does nothing while it runs; goes on after pause()
  void stop() { since_ = paused_ = base::kNever; }
  // The time until start() does not count. Does nothing unless it runs.
  void pause(base::Time now);
  void add(int64_t bytes) { moved_ += bytes; }  // below 0: they had been counted too early
  bool running() const { return since_ != base::kNever; }
  // True once too little has moved. A rate of 0 is never too little. More than the rate counts for the stretches that
  // follow, as much as they need in `credit`.
  bool below(base::Time now, uint32_t rate, base::Duration grace, base::Duration credit = {});
  bool below(base::Time now, const DrainFloor& least) { return below(now, least.rate, least.grace, least.credit); }

 private:
  base::Time since_ = base::kNever, paused_ = base::kNever;
  int64_t moved_ = 0;
};

// A floor under output. Only what the peer has taken counts: a socket takes megabytes at once, and then none until a
// third of them has gone, however steadily a slow peer reads.
class OutputFloor {
 public:
  // Before start() and below(): `undelivered`, of Wire, as it is now.
  void check_socket(size_t undelivered) {
    floor_.add(int64_t(std::exchange(undelivered_, undelivered)) - int64_t(undelivered));
  }
  size_t undelivered() const { return undelivered_; }
  void written(size_t bytes) { floor_.add(int64_t(bytes)); }
  void start(base::Time now) { floor_.start(now); }
  void stop() { floor_.stop(); }
  bool below(base::Time now, const DrainFloor& least) { return floor_.below(now, least); }

 private:
  RateFloor floor_;
  size_t undelivered_ = 0;
};

// Streams of one connection wait for each other: a body that is too slow by itself is not its client's fault as long as
// all of them together bring what each has to. What they bring beyond that counts for the `grace` that follows.
class SharedPace {
 public:
  void add(size_t bytes) { moved_ += double(bytes); }
  // A body that is not in look()'s rate must bring so many bytes per second more than before; below 0: less.
  void await(int64_t more) { awaited_ += more; }
  // From time to time. `rate`: of all other bodies that are awaited, in bytes per second. 0 of all: none is, and all
  // begins anew.
  void look(base::Time now, uint64_t rate, base::Duration grace);
  // As of the last look.
  bool below() const { return ahead_ < 0; }

 private:
  base::Time at_ = base::kNever;
  double moved_ = 0, ahead_ = 0;
  int64_t awaited_ = 0;
};

// The rate, in bytes per second, that a body must keep: `least`, or, where memory is scarce, enough to fill in a minute
// the `reserved` bytes that are held for it. So memory is not to be had for the asking: who holds 64 MiB while others
// wait has to send them at a megabyte a second. Where there is memory for all, slow links have all the time that
// `least` gives them. 0 stays 0: no floor.
uint32_t floor_rate(uint32_t least, uint64_t reserved, const base::SlabSource& slabs);

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
  Credit earned_pings_, earned_settings_, earned_resets_;
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

// Finds the frames in the bytes of one direction, however they are split, without keeping any payload.
class FrameWalker {
 public:
  explicit FrameWalker(size_t preface) : skip_(preface) {}
  // Walks on until a frame head is complete or `n` bytes are used up; returns how many it used. `found` says whether
  // head() is new. The bytes used include the head but not the payload.
  size_t walk(const std::byte* bytes, size_t n, bool& found);
  const FrameHead& head() const { return head_; }
  // Walks over all of them.
  void pass(std::span<const std::byte> bytes);
  // Bytes of a DATA frame's payload that come next, where they are many: what is little comes faster together with the
  // frames behind it. 0 for padded frames, whose payload is not where the frame begins.
  size_t large_payload() const;
  // Something other than DATA has begun and is not complete: a head, a header block, a control frame.
  bool inside() const { return have_ != 0 || block_open_ || (skip_ != 0 && head_.type != H2Frame::kData); }

 private:
  static constexpr uint8_t kHead = 9;

  void read(const std::byte* head);
  void complete(const std::byte* head);

  size_t skip_;  // payload (or preface) still to pass over
  uint8_t have_ = 0, need_ = kHead;
  std::array<std::byte, 13> buffer_;
  FrameHead head_;
  bool block_open_ = false;  // HEADERS without END_HEADERS yet
};

}  // namespace weir::wire
