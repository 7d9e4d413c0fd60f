// The Codec's side of H2: feeding, time limits, drain, the end.
#include <algorithm>
#include <array>
#include <utility>

#include "wire/service_guard.h"

#include "wire/h2_session.h"

namespace weir::wire {
namespace {

constexpr uint64_t kTables = 2 * 4096;  // of HPACK, each way (RFC 7541 §4.2), as we announce them
constexpr size_t kPreface = 24;         // "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
constexpr base::Duration kLastFlush = std::chrono::seconds(1);
constexpr base::Duration kUnread = std::chrono::seconds(1);
constexpr base::Duration kH2ShortIdle = std::chrono::seconds(2);  // where memory is short
constexpr size_t kSocketIsSlow = 64 << 10;  // unwritten output above which the socket, not a window, holds streams up

}  // namespace

H2::H2(const CodecEnv& env, Wire& wire, const PeerInfo& peer)
    : env_(env),
      memory_(base::ledger_of(env.slabs)),
      limits_(env.limits),
      wire_(wire),
      peer_(peer),
      guard_(limits_, wire.now()),
      heads_(memory_, base::MemoryKind::kInput, kTables, owner_of_heads(env.bodies, peer.client.get())),
      walker_(kPreface),
      now_(wire.now()),
      opened_(now_),
      idle_since_(now_) {
  start();
}

H2::~H2() { closed(); }

void H2::feed(std::span<const std::byte> bytes) {
  if (dead_ || eof_) return;
  if (!stash_.empty()) {
    stash_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return;
  }
  size_t used = digest(bytes);
  if (used < bytes.size()) {
    stash_.assign(reinterpret_cast<const char*>(bytes.data()) + used, bytes.size() - used);
    wire_.output_ready();
  }
  settle();
}

// One helping: as much as may start within one read. Returns what it used.
size_t H2::digest(std::span<const std::byte> bytes) {
  now_ = helped_ = wire_.now();
  inflating_.enter(now_);
  size_t used = admit(bytes);
  if (!guard_.verdict()) receive(bytes.first(used));
  if (guard_.verdict()) die();
  return dead_ ? bytes.size() : used;
}

size_t H2::admit(std::span<const std::byte> bytes) {
  guard_.new_read();
  size_t at = 0;
  bool found = false;
  while (at < bytes.size()) {
    at += walker_.walk(bytes.data() + at, bytes.size() - at, found);
    if (!found) continue;
    if (!guard_.frame(walker_.head(), now_)) break;
    if (Verdict broken = rules_.check(walker_.head())) {
      guard_.condemn(broken);
      break;
    }
    if (guard_.enough()) break;
  }
  if (!walker_.inside())
    inside_since_ = base::kNever;
  else if (inside_since_ == base::kNever)
    inside_since_ = now_;
  return at;
}

void H2::receive(std::span<const std::byte> bytes) {
  inside_ = Inside::kLibrary;
  ssize_t n = nghttp2_session_mem_recv(session_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  inside_ = Inside::kNothing;
  if (n >= 0) return;
  switch (n) {
    case NGHTTP2_ERR_BAD_CLIENT_MAGIC: return condemn(reason::kPreface, H2Error::kProtocol, "bad connection preface");
    case NGHTTP2_ERR_FLOODED: return condemn(reason::kH2Outbound, H2Error::kEnhanceYourCalm, "too many unread answers");
    case NGHTTP2_ERR_TOO_MANY_CONTINUATIONS:
      return condemn(reason::kH2Continuation, H2Error::kEnhanceYourCalm, "too many CONTINUATION frames");
    default:  // keeps an earlier verdict, if a callback left one
      return condemn(reason::kParse, H2Error::kInternal, "cannot go on");
  }
}

// One helping in each turn of the loop, so that others have theirs. False: not in this turn.
bool H2::digest_stash() {
  if (helped_ == wire_.now()) {
    wire_.tick_next_turn();
    return false;
  }
  std::string rest = std::move(stash_);
  stash_.clear();
  size_t used = digest(std::as_bytes(std::span(rest)));
  if (dead_) return true;
  rest.erase(0, used);
  stash_ = std::move(rest);
  if (!stash_.empty()) wire_.output_ready();
  return true;
}

void H2::consume(H2Exchange& x, size_t n) {
  n = std::min(n, x.in.unconsumed);
  if (n == 0 || !session_) return;
  x.in.unconsumed -= n;
  nghttp2_session_consume(session_, x.stream(), n);
  if (inside_ == Inside::kNothing && nghttp2_session_want_write(session_)) wire_.output_ready();
}

// A tensor on a long way would else be held to one window per round trip. What has its memory is consumed as it comes,
// so a wide window keeps nobody else from the connection's; that one bounds what a connection can make us keep.
void H2::expect(H2Exchange& x, size_t n) {
  bool wide = n > limits_.stream_window && !overloaded(base::Overload::kShrink);
  if (!session_ || (!wide && !x.in.wide)) return;
  x.in.wide = wide;
  size_t window =
      wide ? std::min<size_t>(n, std::max(limits_.conn_window, limits_.stream_window)) : limits_.stream_window;
  window = std::min(window, size_t(NGHTTP2_MAX_WINDOW_SIZE));
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, x.stream(), int32_t(window));
  if (inside_ == Inside::kNothing && nghttp2_session_want_write(session_)) wire_.output_ready();
}

void H2::condemn(std::string_view reason, H2Error code, std::string_view text) { guard_.condemn({reason, code, text}); }

// The verdict is carried out: GOAWAY, what is in the output already, the end. The library is not asked any more, so
// that it may be in any state.
void H2::die() {
  if (dead_) return;
  dead_ = true;
  dead_at_ = now_;
  stash_.clear();
  abort_all();
  if (rejected_) return;  // the library's own GOAWAY is in the output
  rejected_ = true;
  const Verdict& v = guard_.verdict();
  env_.intake.rejected(v.reason, peer_);
  // RFC 9113 §6.8: last stream id, error code, debug data.
  uint32_t length = uint32_t(8 + v.text.size()), last = uint32_t(nghttp2_session_get_last_proc_stream_id(session_));
  std::array<uint8_t, 17> goaway{uint8_t(length >> 16), uint8_t(length >> 8), uint8_t(length), NGHTTP2_GOAWAY};
  for (int i = 0; i < 4; ++i) {
    goaway[9 + i] = uint8_t(last >> (24 - 8 * i));
    goaway[13 + i] = uint8_t(uint32_t(v.code) >> (24 - 8 * i));
  }
  output_.copy(goaway.data(), goaway.size());
  output_.copy(v.text.data(), v.text.size());
}

// Ends what cannot complete any more; a response that is whole in the output may still go out.
void H2::abort_all() {
  for (auto& x : live_)
    if (!x->out.finished) close_exchange(*x, false);
}

void H2::drop_output() {
  output_.clear();
  while (!marks_.empty()) {
    H2Exchange& x = *marks_.front().exchange;
    marks_.pop();
    --x.marks;
    close_exchange(x, false);
    sweep_.push_back(&x);
  }
}

void H2::close_exchange(H2Exchange& x, bool complete) {
  if (x.over) return;
  x.over = true;
  x.complete = complete;
  drop_body(x);
  x.abandon_output();
  over_.push_back(&x);
}

// Tells whom it concerns, outside of the library.
void H2::settle() {
  for (size_t i = 0; i < drained_.size(); ++i)
    if (H2Exchange& x = *drained_[i]; !x.over) tell_drain(x);
  drained_.clear();
  for (size_t i = 0; i < over_.size(); ++i) {
    H2Exchange& x = *over_[i];
    x.close_reader();
    if (x.begun) env_.intake.closed(x);
    x.closed = true;
    --serving_;
    sweep_.push_back(&x);
  }
  if (!over_.empty() && serving_ == 0) idle_since_ = now_;
  over_.clear();
  sweep();
}

// Exchanges that nothing refers to any more go back to the spares.
void H2::sweep() {
  for (size_t i = 0; i < sweep_.size(); ++i) {
    H2Exchange* x = sweep_[i];
    if (!x->closed || x->open_stream || x->marks > 0 || x->touched || x->tickets() > 0) continue;
    x->recycle();  // also: not `closed`, so a second mention in this list is passed over
    std::swap(live_[x->index], live_.back());
    live_[x->index]->index = x->index;
    keep_spare(std::move(live_.back()));
    live_.pop_back();
  }
  sweep_.clear();
}

// With what it has grown to, if there is room for that.
void H2::keep_spare(std::unique_ptr<H2Exchange> x) {
  const uint64_t kept = x->kept();
  heads_.give(std::exchange(x->charged, 0));
  if (overloaded(base::Overload::kShrink) || !heads_.take(kept)) return;
  x->charged = kept;
  spare_.push_back(std::move(x));
}

void H2::drop_spares() {
  for (auto& x : spare_) heads_.give(x->charged);
  spare_.clear();
  if (live_.empty()) heads_.rest();
}

bool H2::session_over() const {
  return !dead_ && !nghttp2_session_want_read(session_) && !nghttp2_session_want_write(session_);
}

bool H2::finished() const {
  if (dead_) return true;
  if (!stash_.empty() || !touched_.empty()) return false;
  return session_over() || (eof_ && serving_ == 0 && !nghttp2_session_want_write(session_));
}

// The peer's sending side is closed: what it has asked for completely is still answered.
void H2::eof() {
  if (dead_) return;
  now_ = wire_.now();
  eof_ = true;
  for (; !stash_.empty() && !dead_; digest_stash()) helped_ = base::kNever;
  for (auto& x : live_)
    if (!x->in.ended && !x->out.finished) x->reset(Reset::kCancel);
}

void H2::closed() {
  if (!session_) return;
  now_ = wire_.now();
  dead_ = true;
  stash_.clear();
  drop_output();
  for (auto& x : live_) {
    x->open_stream = x->touched = false;
    close_exchange(*x, false);
    sweep_.push_back(x.get());
  }
  touched_.clear();
  settle();
  nghttp2_session_del(std::exchange(session_, nullptr));
  for (auto& x : live_)
    if (x->tickets() > 0) x.release()->orphan();
  live_.clear();
  spare_.clear();
}

void H2::drain(Drain step) {
  if (dead_) return;
  if (step == Drain::kAnnounce)
    nghttp2_submit_shutdown_notice(session_);
  else
    nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session_),
                          NGHTTP2_NO_ERROR, nullptr, 0);
  wire_.output_ready();
}

void H2::tick(base::Time now) {
  now_ = now;
  inflating_ = {.turn = now};
  helped_ = base::kNever;
  if (dead_) {
    if (session_ && now - dead_at_ >= kLastFlush) drop_output();
    return settle();
  }
  check_connection();
  for (size_t i = 0; i < live_.size(); ++i) {
    check_unread(*live_[i]);
    if (!live_[i]->over) check_exchange(*live_[i]);
  }
  if (guard_.verdict()) {
    die();
    wire_.output_ready();
  }
  settle();
}

void H2::check_connection() {
  guard_.check(now_);
  if (inside_since_ != base::kNever && now_ - inside_since_ >= limits_.head)
    condemn(reason::kSlowHeader, H2Error::kEnhanceYourCalm, "frame too slow");
  if (memory_) memory_->look();
  fit_window();
  check_drain();
  send_away();
  if (live_.empty() && !dead_) {
    drop_spares();
    output_.shrink();
    base::Duration most = overloaded(base::Overload::kClose) ? std::min(limits_.idle, kH2ShortIdle) : limits_.idle;
    if (now_ - idle_since_ < most) return;
    nghttp2_session_terminate_session(session_, NGHTTP2_NO_ERROR);
    wire_.output_ready();
  }
}

// Where memory is short a busy connection is told to go, as it is in a drain, and ends with its last answer. A young
// one stays: its client would come again at once.
void H2::send_away() {
  if (dead_ || away_ == Drain::kRefuse) return;
  if (!away_ && (!overloaded(base::Overload::kClose) || now_ - opened_ < limits_.grace || live_.empty())) return;
  away_ = away_ ? Drain::kRefuse : Drain::kAnnounce;
  drain(*away_);
}

// Does the socket take what is ready? It answers for all that the streams hold.
void H2::check_drain() {
  if (output_.empty()) return drain_floor_.stop();
  drain_floor_.start(now_);
  uint64_t held = 0;
  for (auto& x : live_)
    if (!x->over) held += held_for_answer(*x);
  DrainFloor floor = drain_floor(limits_, held, env_.slabs);
  if (!drain_floor_.below(now_, floor.rate, floor.grace)) return;
  condemn(reason::kSlowRead, H2Error::kEnhanceYourCalm, "output not read");
  die();
  drop_output();  // nobody reads the GOAWAY either
}

// Others need the body's memory, or it has waited for some in vain.
void H2::settle_lost(H2Exchange& x) {
  auto why = std::exchange(x.in.lost, std::nullopt);
  if (!why || x.over || x.in.discard) return;
  x.in.stalled = false;
  consume(x, x.in.unconsumed);
  if (*why == BodyMemory::Loss::kSilent) return refuse(x, 408, reason::kSlowBody, kMemoryGivenAway);
  refuse(x, 503, reason::kOverload, kNoMemoryInTime);
}

void H2::check_exchange(H2Exchange& x) {
  settle_lost(x);
  if (x.in.stalled) collected(x, x.collector.retry());
  auto slow = [&](std::string_view why) {
    x.record().reject = why;
    x.out.ended = false;  // a response that does not get away is cut off
    x.reset(Reset::kCancel);
    guard_.glitch(now_);
  };
  uint32_t rate = floor_rate(limits_.min_body_rate, x.collector.reserved(), env_.slabs);
  if (x.in.floor.below(now_, rate, limits_.grace)) return slow(reason::kSlowBody);
  bool streaming = x.in.plan == BodyPlan::kStream && !x.in.ended && x.begun;
  if (streaming && now_ - x.in.moved >= limits_.stream_idle) return slow(reason::kIdle);
  if (x.out.queued > 0 && x.out.submitted && output_.size() < kSocketIsSlow)
    x.out.floor.start(now_);
  else
    x.out.floor.stop();
  DrainFloor floor = drain_floor(limits_, held_for_answer(x), env_.slabs);
  if (x.out.floor.below(now_, floor.rate, floor.grace)) slow(reason::kSlowRead);
}

// The answer is out, but the request has not ended. RFC 9113 §8.1 lets us say that the rest is not wanted, but some
// clients (curl 7.88) then forget the answer too if they have not sent all of a body yet. So a small one may come: what
// fits the stream's window, for a moment. A call of gRPC is over for its client only when the reset has come.
void H2::check_unread(H2Exchange& x) {
  bool unread = x.open_stream && x.out.finished && !x.in.ended && !x.asked_reset;
  if (!unread || (!x.in.grpc && now_ - x.out.finished_at < kUnread)) return;
  x.asked_reset = true;
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, x.stream(), NGHTTP2_NO_ERROR);
  wire_.output_ready();
}

std::unique_ptr<Codec> make_h2(const CodecEnv& env, Wire& wire, const PeerInfo& peer) {
  return std::make_unique<H2>(env, wire, peer);
}

}  // namespace weir::wire
