#include "wire/h2_sender.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "wire/h2_callbacks.h"

namespace weir::wire {
namespace {

constexpr size_t kOutputTarget = 256 << 10;  // gathered ahead of the socket; more waits in its streams, for fairness
constexpr size_t kCopyBelow = 4096;          // smaller pieces are cheaper to copy than to point at
constexpr size_t kFrameHeadBytes = 9, kType = 3, kFlags = 4;  // bytes; where in it
constexpr size_t kFrame = 16 << 10, kLargeFrame = 256 << 10;
constexpr base::Duration kUnread = std::chrono::seconds(1);
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

// Some of its answer waits for the client's window, or for the socket. Also the end of an answer waits for the window,
// if its last bytes have used that up: nghttp2 holds back even an empty DATA frame.
bool waits(const H2Exchange& x) { return x.out.submitted && !x.out.finished && (x.out.queued > 0 || x.out.ended); }

}  // namespace

void H2Sender::fill() {
  connection_.in_library = true;
  submit_touched();
  // A session that is asleep has nothing to send. After its last GOAWAY the library would still give what it has
  // queued.
  while (!connection_.asleep() && output_.size() < kOutputTarget && !(goaway_sent_ && connection_.session_over())) {
    const uint8_t* at = nullptr;
    ssize_t n = nghttp2_session_mem_send(connection_.session(), &at);
    if (n > 0) put_frame(at, size_t(n));
    if (ending_) mark(*std::exchange(ending_, nullptr), 0, true);
    if (n < 0) connection_.condemn(reason::kParse, H2Error::kInternal, "cannot send");
    if (n <= 0) break;
  }
  known_ = nullptr;
  connection_.in_library = false;
}

void H2Sender::submit_touched() {
  auto& touched = streams_.touched();
  for (size_t i = 0; i < touched.size(); ++i) {
    H2Exchange& x = *touched[i];
    x.touched = false;
    if (!x.open_stream || x.over) {
      streams_.sweep_later(x);
    } else if (x.out.reset) {
      x.asked_reset = true;
      connection_.reset_stream(x.stream(), code_of(*x.out.reset));
    } else if (x.out.started && !x.out.submitted) {
      submit_head(x);
    } else {
      nghttp2_session_resume_data(connection_.session(), x.stream());  // an error says that it had not been deferred
    }
  }
  touched.clear();
}

void H2Sender::submit_head(H2Exchange& x) {
  x.out.submitted = true;
  const auto [known, fields] = fields_.head_to_send(x);
  x.out.block = known;
  bool bare = x.out.ended && x.out.queued == 0 && !x.out.has_trailers();
  if (!bare && (!x.out.ended || x.out.queued > kLargeFrame)) {
    nghttp2_extpri share{NGHTTP2_EXTPRI_DEFAULT_URGENCY, 1};  // takes turns with the others
    nghttp2_session_change_extpri_stream_priority(connection_.session(), x.stream(), &share, 1);
  }
  nghttp2_data_provider body = body_provider(x);
  nghttp2_submit_response(connection_.session(), x.stream(), fields.data(), fields.size(), bare ? nullptr : &body);
}

// One frame of the library's.
void H2Sender::put_frame(const uint8_t* at, size_t n) {
  const uint8_t type = at[kType];
  if (H2Exchange* x = std::exchange(known_, nullptr)) return put_known_head(*x, at, n);
  output_.copy(at, n);
  if (type != NGHTTP2_HEADERS && type != NGHTTP2_CONTINUATION) return;
  const bool whole = type == NGHTTP2_HEADERS && (at[kFlags] & ~NGHTTP2_FLAG_END_STREAM) == NGHTTP2_FLAG_END_HEADERS;
  connection_.blocks.wrote({reinterpret_cast<const char*>(at) + kFrameHeadBytes, n - kFrameHeadBytes},
                           whole ? H2KnownBlocks::Part::kWhole : H2KnownBlocks::Part::kOneOfSeveral);
}

// The library's frame has no fields. It has a block all the same if the table's size has changed since it was
// submitted; then, and if the table was changed by a head before it, the fields are written so that no table matters.
void H2Sender::put_known_head(const H2Exchange& x, const uint8_t* frame, size_t n) {
  const std::string_view own{reinterpret_cast<const char*>(frame) + kFrameHeadBytes, n - kFrameHeadBytes};
  const std::string_view block = connection_.blocks.block(x.out.block);
  if (own.empty() && !block.empty()) return put_head(frame[kFlags], x.stream(), block);
  put_head(frame[kFlags], x.stream(), std::string(own) + literal_block(fields_.head(x)));
}

void H2Sender::put_head(uint8_t flags, int32_t stream, std::string_view block) {
  const auto size = uint32_t(block.size()), id = uint32_t(stream);
  const std::array<uint8_t, kFrameHeadBytes> head{
      uint8_t(size >> 16), uint8_t(size >> 8), uint8_t(size),    NGHTTP2_HEADERS, flags,
      uint8_t(id >> 24),   uint8_t(id >> 16),  uint8_t(id >> 8), uint8_t(id)};
  std::array<uint8_t, kFrameHeadBytes + H2KnownBlocks::kMostBlock> both;
  std::copy(head.begin(), head.end(), both.begin());
  const size_t first = std::min(block.size(), H2KnownBlocks::kMostBlock);
  std::memcpy(both.data() + kFrameHeadBytes, block.data(), first);
  output_.copy(both.data(), kFrameHeadBytes + first);
  if (block.size() > first) output_.copy(block.data() + first, block.size() - first);
}

ssize_t H2Sender::frame_size(int32_t stream, uint32_t max_frame) const {
  const H2Exchange* x = connection_.exchange_of(stream);
  size_t want = x && x->out.queued > kFrame ? std::min(x->out.queued, kLargeFrame) : kFrame;
  return ssize_t(std::min<size_t>(want, max_frame));
}

ssize_t H2Sender::read_body(H2Exchange& x, size_t max, uint32_t& flags) {
  size_t n = std::min(max, x.out.queued);
  if (n == 0 && !x.out.ended) return NGHTTP2_ERR_DEFERRED;
  flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (!x.out.ended || n < x.out.queued) return ssize_t(n);
  flags |= NGHTTP2_DATA_FLAG_EOF;
  if (!x.out.has_trailers()) return ssize_t(n);
  const auto [known, fields] = fields_.trailers_to_send(x);
  trailers_ = known;
  if (trailers_ != H2KnownBlocks::Ref::kNone) return ssize_t(n);  // the library sees them as the end of the DATA
  flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
  nghttp2_submit_trailer(connection_.session(), x.stream(), fields.data(), fields.size());
  return ssize_t(n);
}

int H2Sender::send_body(H2Exchange& x, const uint8_t* head, size_t n) {
  const auto trailers = std::exchange(trailers_, {});
  const bool trailed = trailers != H2KnownBlocks::Ref::kNone;
  std::array<uint8_t, kFrameHeadBytes> own;
  std::copy_n(head, kFrameHeadBytes, own.begin());
  if (trailed) own[kFlags] &= uint8_t(~NGHTTP2_FLAG_END_STREAM);
  if (n > 0 || !trailed) output_.copy(own.data(), kFrameHeadBytes);
  auto& out = x.out;
  for (size_t left = n; left > 0;) {
    base::Bytes& front = out.queue.front();
    size_t part = std::min(left, front.size() - out.front_at);
    if (part < kCopyBelow)
      output_.copy(front.data() + out.front_at, part);
    else
      output_.refer(front.slice(out.front_at, part));
    out.front_at += part;
    left -= part;
    if (out.front_at < front.size()) continue;
    out.queue.pop();
    if (out.queue.empty()) out.tail_room = 0;
    out.front_at = 0;
  }
  out.queued -= n;
  out.floor.add(n), window_floor_.add(int64_t(n));
  x.in.moved = connection_.now;
  if (trailed)
    put_head(NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, x.stream(), connection_.blocks.block(trailers));
  mark(x, n, false);
  return output_.size() < kOutputTarget ? 0 : NGHTTP2_ERR_PAUSE;  // else the library goes on as long as there is DATA
}

int H2Sender::on_frame_sent(const nghttp2_frame& frame) {
  const nghttp2_frame_hd& hd = frame.hd;
  connection_.guard.sent({uint32_t(hd.length), H2Frame(hd.type), hd.flags, hd.stream_id, false});
  switch (hd.type) {
    case NGHTTP2_HEADERS: head_sent(frame.headers); [[fallthrough]];
    case NGHTTP2_DATA:
      if (hd.flags & NGHTTP2_FLAG_END_STREAM) end_stream_sent(hd);
      break;
    case NGHTTP2_RST_STREAM: reset_sent(hd.stream_id, frame.rst_stream.error_code); break;
    case NGHTTP2_GOAWAY: goaway_sent(frame.goaway.error_code); break;
  }
  return 0;
}

// The library gives us its bytes next.
void H2Sender::head_sent(const nghttp2_headers& head) {
  H2Exchange* x = connection_.exchange_of(head.hd.stream_id);
  if (x && x->out.block != H2KnownBlocks::Ref::kNone && head.nvlen == 0)
    known_ = x;
  else
    connection_.blocks.writes({head.nva, head.nvlen}, streams_.heads());
}

void H2Sender::end_stream_sent(const nghttp2_frame_hd& head) {
  H2Exchange* x = connection_.exchange_of(head.stream_id);
  if (!x) return;
  x->out.finished = true;
  // DATA is in the output by now; of another frame the library has not yet given us the bytes.
  if (head.type == NGHTTP2_DATA)
    mark(*x, 0, true);
  else
    ending_ = x;
  x->out.finished_at = connection_.now;
  check_unread(*x);
}

void H2Sender::reset_sent(int32_t stream, uint32_t code) {
  H2Exchange* x = connection_.exchange_of(stream);
  if (x && x->asked_reset) return;
  // The peer cannot know how much of its work still runs here, nor, before its ACK, how many streams it may open.
  if (code == NGHTTP2_REFUSED_STREAM) return;
  if (connection_.owed_resets > 0)
    --connection_.owed_resets;  // counted when the frame that caused it came
  else
    connection_.guard.glitch(connection_.now);
}

void H2Sender::goaway_sent(uint32_t code) {
  goaway_sent_ = true;
  if (code == NGHTTP2_NO_ERROR || connection_.rejected) return;
  connection_.rejected = true;  // the library's own verdict
  connection_.env.intake.rejected(reason::kParse, connection_.peer);
}

// A head that cannot be sent (too large for the library) must not leave its stream hanging.
int H2Sender::on_frame_not_sent(const nghttp2_frame& frame) {
  H2Exchange* x = frame.hd.type == NGHTTP2_HEADERS ? connection_.exchange_of(frame.hd.stream_id) : nullptr;
  if (!x || !x->open_stream || x->asked_reset) return 0;
  x->asked_reset = true;
  connection_.reset_stream(frame.hd.stream_id, NGHTTP2_INTERNAL_ERROR);
  return 0;
}

void H2Sender::mark(H2Exchange& x, size_t bytes, bool end) {
  if (!marks_.empty() && marks_.back().exchange == &x) {  // nothing of another stream lies between
    Mark& last = marks_.back();
    last.at = output_.put();
    last.bytes += bytes;
    last.end = end;
    return;
  }
  ++x.marks;
  marks_.push({output_.put(), &x, bytes, end});
}

// Credits the bytes that the socket has taken, stream by stream.
void H2Sender::pass_marks() {
  while (!marks_.empty() && marks_.front().at <= output_.taken()) {
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
  output_.consumed(n);
  drain_floor_.written(n);
  if (output_.empty()) {
    connection_.guard.drained();
  } else if (output_.taken() >= control_mark_) {  // the output of a long download is never empty
    connection_.guard.passed();
    control_mark_ = output_.put();
  }
  pass_marks();
}

void H2Sender::drop_output() {
  output_.clear();
  while (!marks_.empty()) {
    H2Exchange& x = *marks_.front().exchange;
    marks_.pop();
    --x.marks;
    streams_.close(x, false);
    streams_.sweep_later(x);
  }
}

// RFC 9113 §6.8: last stream id, error code, debug data. The library is not asked: it may be in any state.
void H2Sender::send_goaway(const Verdict& verdict) {
  uint32_t length = uint32_t(8 + verdict.text.size());
  uint32_t last = uint32_t(nghttp2_session_get_last_proc_stream_id(connection_.session()));
  std::array<uint8_t, 17> goaway{uint8_t(length >> 16), uint8_t(length >> 8), uint8_t(length), NGHTTP2_GOAWAY};
  for (int i = 0; i < 4; ++i) {
    goaway[9 + i] = uint8_t(last >> (24 - 8 * i));
    goaway[13 + i] = uint8_t(uint32_t(verdict.code) >> (24 - 8 * i));
  }
  output_.copy(goaway.data(), goaway.size());
  output_.copy(verdict.text.data(), verdict.text.size());
}

// The answer is out, but the request has not ended. RFC 9113 §8.1 lets us say that the rest is not wanted, but some
// clients (curl 7.88) then forget the answer too if they have not sent all of a body yet. So a small one may come: what
// fits the stream's window, for a moment. A call of gRPC is over for its client only when the reset has come.
void H2Sender::check_unread(H2Exchange& x) {
  bool unread = x.open_stream && x.out.finished && !x.in.ended && !x.asked_reset;
  if (!unread || (!x.in.grpc && connection_.now - x.out.finished_at < kUnread)) return;
  x.asked_reset = true;
  connection_.reset_stream(x.stream(), NGHTTP2_NO_ERROR);
  connection_.wire.output_ready();
}

bool H2Sender::socket_is_slow() const { return output_.size() + drain_floor_.undelivered() >= kSocketIsSlow; }

void H2Sender::check(H2Exchange& x) {
  if (!waits(x))
    x.out.floor.stop();
  else if (!socket_is_slow() && nghttp2_session_get_stream_remote_window_size(connection_.session(), x.stream()) <= 0)
    x.out.floor.start(connection_.now);
  else
    x.out.floor.pause(connection_.now);  // it waits for others
  DrainFloor floor = drain_floor(connection_.limits, held_for_answer(x), connection_.env.slabs);
  if (x.out.floor.below(connection_.now, floor)) streams_.cut_off(x, reason::kSlowRead);
}

// The socket and the connection's window answer for all that the streams hold: the socket also for what a stream's
// window holds back that can open only when the peer has read what is in the socket.
bool H2Sender::check_shared() {
  uint64_t held = 0;
  bool waiting = false;
  for (auto& x : streams_.live()) {
    if (x->over) continue;
    held += held_for_answer(*x);
    waiting = waiting || waits(*x);
  }
  const DrainFloor floor = drain_floor(connection_.limits, held, connection_.env.slabs);
  drain_floor_.check_socket(waiting || !output_.empty() ? connection_.wire.undelivered() : 0);
  if (output_.empty() && drain_floor_.undelivered() < kSocketIsSlow)
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

// `waiting`: some answer is held up, by whatever it is.
void H2Sender::check_window(bool waiting, const DrainFloor& floor) {
  if (!waiting || nghttp2_session_get_remote_window_size(connection_.session()) > 0) return window_floor_.stop();
  if (socket_is_slow()) return window_floor_.pause(connection_.now);
  window_floor_.start(connection_.now);
  if (!window_floor_.below(connection_.now, floor)) return;
  for (auto& x : streams_.live())
    if (waits(*x)) streams_.cut_off(*x, reason::kSlowRead);
  window_floor_.stop();
}

}  // namespace weir::wire
