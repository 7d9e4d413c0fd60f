#include "wire/h2_sender.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "wire/h2_frame_cutter.h"
#include "wire/unread_body.h"

namespace weir::wire {
namespace {

constexpr size_t kGatheredAhead = 256 << 10;  // output ahead of the socket; more waits in its streams
constexpr size_t kCopyBelow = 4096;           // smaller pieces are cheaper to copy than to point at
constexpr size_t kFrame = 16 << 10, kLargeFrame = 256 << 10;
constexpr size_t kMostEnded = 64;  // streams that have ended, and still wait for a turn
constexpr uint8_t kEndStream = NGHTTP2_FLAG_END_STREAM, kEndHeaders = NGHTTP2_FLAG_END_HEADERS;
// With more output that is not written or not delivered, the socket, not a window, holds streams up.
constexpr size_t kSocketIsSlow = 64 << 10;

uint32_t code_of(Reset why) {
  switch (why) {
    case Reset::kCancel: return NGHTTP2_CANCEL;
    case Reset::kInternal: return NGHTTP2_INTERNAL_ERROR;
    case Reset::kRefused: return NGHTTP2_REFUSED_STREAM;
    case Reset::kNoError: return NGHTTP2_NO_ERROR;
  }
  return NGHTTP2_INTERNAL_ERROR;
}

// Some of its answer waits for the client's window, or for the socket.
bool waits(const H2Exchange& x) { return x.out.submitted && !x.out.finished && x.out.queued > 0; }

// The answer is out, and the rest of the request may still come.
bool awaits_rest(const H2Exchange& x, const H2Connection& c) {
  if (c.now - x.out.finished_at < UnreadBody::kMoment) return true;
  return c.takes_rest(x) && UnreadBody::in_time(c.now, x.out.finished_at, x.in.moved);
}

// Bytes of DATA that go into one frame now.
size_t next_frame(const H2Exchange& x, const H2Connection& c) {
  const size_t most = x.out.queued > kFrame ? std::min<size_t>(kLargeFrame, c.largest_frame) : kFrame;
  return size_t(std::min({int64_t(x.out.queued), int64_t(most), c.window, x.flow.window}));
}

// Where the frame's payload is to be written.
char* begin_frame(char* at, size_t length, H2Frame type, uint8_t flags, int32_t stream) {
  write_frame_head(at, length, type, flags, stream);
  return at + kH2FrameHead;
}
char* put_text(char* at, std::string_view text) {
  std::memcpy(at, text.data(), text.size());
  return at + text.size();
}

}  // namespace

void H2Sender::fill() {
  connection_.inside = true;
  send_touched();
  take_turns();
  if (block_.capacity() > kFrame) base::release(block_);
  connection_.inside = false;
}

// Sends what touched Exchanges have to send, while there is room in the output: heads, small answers and ends. Those
// with more DATA are queued for take_turns().
void H2Sender::send_touched() {
  auto& touched = streams_.touched();
  size_t sent = 0;
  while (sent < touched.size() && output().size() < kGatheredAhead) send(*touched[sent++]);
  touched.erase(touched.begin(), touched.begin() + std::ptrdiff_t(sent));
}

void H2Sender::send(H2Exchange& x) {
  x.touched = false;
  if (!x.open_stream || x.over) return streams_.sweep_later(x);
  if (x.out.reset) {
    x.asked_reset = true;
    return streams_.reset(x, code_of(*x.out.reset));
  }
  if (!x.out.started || x.out.finished) return;
  if (!x.out.submitted) return send_head(x);
  if (x.out.ended && x.out.queued == 0) return send_end(x);
  queue(x);
}

// --- heads and trailers ----------------------------------------------------------------------------------------------

// The block that says `fields`, or the one that is known. Empty: it is too large. Valid until the next call.
std::string_view H2Sender::block_of(H2ResponseFields::ToSend fields) {
  if (fields.known != H2BlockCache::Ref::kNone) return connection_.blocks.block(fields.known);
  connection_.blocks.writes(fields.fields, streams_.heads());
  block_ = connection_.fields.encode(fields.fields);
  connection_.blocks.wrote(block_);
  return block_;
}

void H2Sender::put_block(H2Exchange& x, uint8_t flags, std::string_view block) {
  connection_.frames.head(flags, x.stream(), block);
  connection_.sent(H2Frame::kHeaders, uint8_t(flags | kEndHeaders), x.stream(), block.size());
}

// An answer that comes piece by piece takes turns with the others, whatever its client has asked for.
void H2Sender::send_head(H2Exchange& x) {
  x.out.submitted = true;
  const std::string_view block = block_of(fields_.head_to_send(x));
  if (block.empty()) return fail(x);
  if (x.out.ended && x.out.queued == 0 && !x.out.has_trailers()) {
    put_block(x, kEndStream, block);
    return end_sent(x);
  }
  if (send_whole(x, block)) return;
  put_block(x, 0, block);
  if (!x.out.ended || x.out.queued > kLargeFrame) x.flow.urgency = 3, x.flow.incremental = true;
  if (x.out.ended && x.out.queued == 0) return send_end(x);
  queue(x);
}

// A small answer, written at once behind its head. False: it is not that, or has to wait.
bool H2Sender::send_whole(H2Exchange& x, std::string_view head) {
  const size_t n = x.out.queued;
  if (!x.out.ended || n == 0 || n >= H2Output::kMostInRow || !turns_.empty()) return false;
  if (int64_t(n) > std::min(connection_.window, x.flow.window)) return false;
  std::string_view trailers;
  if (x.out.has_trailers()) {
    const auto known = fields_.trailers_to_send(x).known;
    if (known == H2BlockCache::Ref::kNone) return false;
    trailers = connection_.blocks.block(known);
  }
  const size_t ends = trailers.empty() ? 0 : kH2FrameHead + trailers.size();
  const size_t size = 2 * kH2FrameHead + head.size() + n + ends;
  if (size > H2Output::kMostInRow) return false;
  char* at = begin_frame(output().room(size), head.size(), H2Frame::kHeaders, kEndHeaders, x.stream());
  const uint8_t flags = trailers.empty() ? kEndStream : 0;
  at = begin_frame(put_text(at, head), n, H2Frame::kData, flags, x.stream());
  for (size_t i = 0; i < x.out.queue.size(); ++i) {
    const base::Bytes& piece = x.out.queue[i];
    at = put_text(at, {reinterpret_cast<const char*>(piece.data()), piece.size()});
  }
  if (ends > 0) {
    at = begin_frame(at, trailers.size(), H2Frame::kHeaders, kEndHeaders | kEndStream, x.stream());
    put_text(at, trailers);
  }
  output().wrote(size);
  x.out.queue.clear(), x.out.tail_room = 0;
  connection_.sent(H2Frame::kHeaders, kEndHeaders, x.stream(), head.size());
  count_data(x, flags, n);
  if (ends > 0) connection_.sent(H2Frame::kHeaders, kEndHeaders | kEndStream, x.stream(), trailers.size());
  mark(x, n, true);
  end_sent(x);
  return true;
}

// All of its DATA has gone.
void H2Sender::send_end(H2Exchange& x) {
  if (!x.out.has_trailers()) {
    connection_.send(H2Frame::kData, kEndStream, x.stream(), {});
    return end_sent(x);
  }
  const std::string_view block = block_of(fields_.trailers_to_send(x));
  if (block.empty()) return fail(x);
  put_block(x, kEndStream, block);
  end_sent(x);
}

void H2Sender::end_sent(H2Exchange& x) {
  x.out.finished = true;
  x.in.floor.stop();
  x.out.finished_at = x.in.moved = connection_.now;
  mark(x, 0, true);
  connection_.discard_rest(x, std::exchange(x.in.unconsumed, 0));
  check_unread(x);
  if (x.open_stream && x.flow.whole) streams_.end_stream(x);
}

// Fields that cannot be sent must not leave their stream hanging.
void H2Sender::fail(H2Exchange& x) {
  x.asked_reset = true;
  streams_.reset(x, NGHTTP2_INTERNAL_ERROR);
}

// --- DATA ------------------------------------------------------------------------------------------------------------

void H2Sender::queue(H2Exchange& x) {
  if (x.flow.queued || !waits(x) || x.flow.window <= 0) return;
  if (turns_.size() >= 2 * connection_.open.size() + kMostEnded)
    turns_.filter([&](int32_t stream) { return connection_.exchange_of(stream) != nullptr; });
  x.flow.queued = true;
  const auto kind = x.flow.incremental ? H2Turns::Kind::kIncremental : H2Turns::Kind::kWhole;
  turns_.push(x.stream(), x.flow.urgency, kind, x.flow.turned);
}

bool H2Sender::set_first_window(int64_t bytes) {
  const int64_t by = bytes - std::exchange(connection_.first_window, bytes);
  bool fits = true;
  if (by == 0) return fits;
  connection_.open.each([&](int32_t, H2Exchange* x) {
    x->flow.window += by;
    fits = fits && x->flow.window <= kH2LargestWindow;
    queue(*x);
  });
  return fits;
}

// One that is better had whole keeps its turn until its window is used up. Of those that come in pieces each has as
// many bytes as the others: a large frame is worth several turns, in which the others go before.
void H2Sender::take_turns() {
  while (!turns_.empty() && connection_.window > 0 && output().size() < kGatheredAhead) {
    H2Exchange* x = connection_.exchange_of(turns_.front());
    if (x && waits(*x) && x->flow.window > 0) {
      const size_t n = next_frame(*x, connection_);
      x->flow.turned = turns_.sends(n);
      send_data(*x, n);
      if (x->open_stream && waits(*x) && x->flow.window > 0 && !x->flow.incremental) continue;
    }
    turns_.pop();
    if (!x) continue;
    x->flow.queued = false;
    if (x->open_stream) queue(*x);
  }
}

void H2Sender::send_data(H2Exchange& x, size_t n) {
  const bool last = x.out.ended && n == x.out.queued, ends = last && !x.out.has_trailers();
  const uint8_t flags = ends ? kEndStream : 0;
  begin_frame(output().room(kH2FrameHead), n, H2Frame::kData, flags, x.stream());
  output().wrote(kH2FrameHead);
  put_data(x, n);
  count_data(x, flags, n);
  mark(x, n, false);
  if (ends)
    end_sent(x);
  else if (last)
    send_end(x);
}

void H2Sender::put_data(H2Exchange& x, size_t n) {
  auto& out = x.out;
  while (n > 0) {
    base::Bytes& front = out.queue.front();
    const size_t part = std::min(n, front.size() - out.front_at);
    if (part < kCopyBelow)
      output().copy(front.data() + out.front_at, part);
    else
      output().refer(front.slice(out.front_at, part));
    out.front_at += part;
    n -= part;
    if (out.front_at < front.size()) continue;
    out.queue.pop();
    if (out.queue.empty()) out.tail_room = 0;
    out.front_at = 0;
  }
}

void H2Sender::count_data(H2Exchange& x, uint8_t flags, size_t n) {
  connection_.window -= int64_t(n), x.flow.window -= int64_t(n);
  x.out.queued -= n;
  x.out.floor.add(int64_t(n)), window_floor_.add(int64_t(n));
  x.in.moved = connection_.now;
  connection_.sent(H2Frame::kData, flags, x.stream(), n);
}

// --- the socket ------------------------------------------------------------------------------------------------------

void H2Sender::mark(H2Exchange& x, size_t bytes, bool end) {
  if (!marks_.empty() && marks_.back().exchange == &x) {  // nothing of another stream lies between
    Mark& last = marks_.back();
    last.at = output().put();
    last.bytes += bytes;
    last.end = end;
    return;
  }
  ++x.marks;
  marks_.push({output().put(), &x, bytes, end});
}

// Credits the bytes that the socket has taken, stream by stream.
void H2Sender::pass_marks() {
  while (!marks_.empty() && marks_.front().at <= output().taken()) {
    Mark mark = marks_.front();
    marks_.pop();
    --mark.exchange->marks;
    if (!mark.exchange->over) pass_mark(mark);
    if (mark.exchange->over) streams_.sweep_later(*mark.exchange);
  }
}

void H2Sender::pass_mark(const Mark& mark) {
  H2Exchange& x = *mark.exchange;
  x.out.backlog -= mark.bytes;
  x.out.small.fit(x.out.backlog);
  if (mark.end) {
    streams_.close(x, true);
  } else if (x.out.above && x.out.backlog < Exchange::kLowWater) {
    x.out.above = false;
    streams_.drain_later(x);
  }
}

void H2Sender::consumed(size_t n) {
  output().consumed(n);
  drain_floor_.written(n);
  if (output().empty()) {
    connection_.guard.drained();
  } else if (output().taken() >= control_mark_) {  // the output of a long download is never empty
    connection_.guard.passed();
    control_mark_ = output().put();
  }
  pass_marks();
}

void H2Sender::drop_output() {
  output().clear();
  while (!marks_.empty()) {
    H2Exchange& x = *marks_.front().exchange;
    marks_.pop();
    --x.marks;
    streams_.close(x, false);
    streams_.sweep_later(x);
  }
}

// The answer is out, but the request has not ended. RFC 9113 §8.1 lets us say that the rest is not wanted, but some
// clients then forget the answer too if they have not sent all of a body yet (curl 7.88), or look at it only then. So
// it may come, within UnreadBody's bounds. A call of gRPC is over for its client only when the reset has come. Java's
// HttpClient (17) passes over a reset behind the end of an answer, and waits for its window: only the end of the
// connection ends that.
void H2Sender::check_unread(H2Exchange& x) {
  const bool unread = x.open_stream && x.out.finished && !x.in.ended && !x.asked_reset;
  if (!unread) return;
  // Its window has stayed closed if memory was short.
  if (!x.in.grpc && awaits_rest(x, connection_)) return connection_.discard_rest(x, 0);
  x.asked_reset = true;
  if (!x.in.grpc) {
    connection_.leaves_at = std::min(connection_.leaves_at, connection_.now + UnreadBody::kMost);
    connection_.leaves_behind = connection_.last_taken;
  }
  streams_.reset(x, NGHTTP2_NO_ERROR);
}

bool H2Sender::socket_is_slow() { return output().size() + drain_floor_.undelivered() >= kSocketIsSlow; }

void H2Sender::check(H2Exchange& x) {
  if (!waits(x))
    x.out.floor.stop();
  else if (!socket_is_slow() && x.flow.window <= 0)
    x.out.floor.start(connection_.now);
  else
    x.out.floor.pause(connection_.now);  // it waits for others
  DrainFloor floor = drain_floor(connection_.limits, held_for_answer(x), connection_.env.slabs);
  if (x.out.floor.below(connection_.now, floor)) streams_.cut_off(x, reason::kSlowRead);
}

// The socket and the connection's window are checked against the bytes that all streams hold. That includes streams
// that wait for their own window: it can open only when the peer has read what is in the socket.
bool H2Sender::check_shared() {
  uint64_t held = 0;
  bool waiting = false;
  for (auto& x : streams_.live()) {
    if (x->over) continue;
    held += held_for_answer(*x);
    waiting = waiting || waits(*x);
  }
  const DrainFloor floor = drain_floor(connection_.limits, held, connection_.env.slabs);
  drain_floor_.check_socket(waiting || !output().empty() ? connection_.wire.undelivered() : 0);
  if (output().empty() && drain_floor_.undelivered() < kSocketIsSlow)
    drain_floor_.stop();
  else
    drain_floor_.start(connection_.now);
  if (drain_floor_.below(connection_.now, floor)) {
    connection_.condemn(reason::kSlowRead, H2Error::kEnhanceYourCalm, "output not read");
    return true;
  }
  check_window(waiting, floor);
  return false;
}

// `waiting`: some answer is held up, by a window or by the socket.
void H2Sender::check_window(bool waiting, const DrainFloor& floor) {
  if (!waiting || connection_.window > 0) return window_floor_.stop();
  if (socket_is_slow()) return window_floor_.pause(connection_.now);
  window_floor_.start(connection_.now);
  if (!window_floor_.below(connection_.now, floor)) return;
  for (auto& x : streams_.live())
    if (waits(*x)) streams_.cut_off(*x, reason::kSlowRead);
  window_floor_.stop();
}

}  // namespace weir::wire
