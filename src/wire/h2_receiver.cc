#include "wire/h2_receiver.h"

#include <utility>

namespace weir::wire {
namespace {

constexpr base::Duration kYoung = std::chrono::seconds(1);  // Envoy: a reset before this age is premature
constexpr uint32_t kId = 0x7fffffff;

uint32_t number_in(std::string_view from) {
  auto at = [&](size_t i) { return uint32_t(uint8_t(from[i])); };
  return at(0) << 24 | at(1) << 16 | at(2) << 8 | at(3);
}

// A client resets its calls when their own deadline comes. Its clock began before ours, by the head's way here, and its
// header may be rounded up. A timeout that is shorter than what a reset is to cost would make all resets free.
bool past_own_deadline(const H2Exchange& x, base::Time now) {
  constexpr base::Duration kLeast = std::chrono::milliseconds(50);
  const auto& record = x.record();
  if (record.deadline == base::kNever) return false;
  const base::Duration timeout = record.deadline - record.began;
  return timeout >= kLeast && now - record.began >= timeout / 10 * 9;
}

// gRPC's core (C++, Python, Ruby, PHP) takes a call's stream id before it writes the head. A call that is cancelled in
// between is a reset of a stream that the server never sees. §6.4 wants the connection ended for that, and all other
// calls on it would die; servers made of the same core pass over it. So it is passed over here, behind a request.
bool cancels_unsent(const H2Connection& connection, int32_t stream, uint32_t code) {
  if (code != NGHTTP2_CANCEL || connection.last_seen == 0 || stream % 2 == 0) return false;
  return stream > connection.last_seen && uint32_t(stream - connection.last_seen) <= 2 * connection.limits.streams;
}

}  // namespace

void H2Receiver::receive(std::string_view bytes) {
  while (!connection_.guard.verdict()) {
    const auto step = reader_.next(bytes);
    if (step == H2FrameReader::Step::kMore) return;
    act(step);
  }
}

void H2Receiver::act(H2FrameReader::Step step) {
  using Step = H2FrameReader::Step;
  switch (step) {
    case Step::kHead: return on_head(reader_.head());
    case Step::kBlock: return heads_.take(reader_);
    case Step::kContent:
    case Step::kPadding: return bodies_.take(reader_, step);
    case Step::kControl: return on_control(reader_.head(), reader_.payload());
    case Step::kShort: return connection_.fault(NGHTTP2_FRAME_SIZE_ERROR, "a frame too short for its flags");
    case Step::kBroken: return connection_.fault(NGHTTP2_PROTOCOL_ERROR, "more padding than there is room for");
    case Step::kMore:
    case Step::kNothing: return;
  }
}

// --- heads of frames -------------------------------------------------------------------------------------------------

void H2Receiver::on_head(const FrameHead& head) {
  if (!has_its_place(head) || !has_its_length(head)) return;
  if (head.type == H2Frame::kData) bodies_.begin_data(reader_);
}

// §3.4: SETTINGS come first. §6.10: nothing comes between a header block's frames. §8.4: a client pushes nothing.
bool H2Receiver::has_its_place(const FrameHead& head) {
  if (!std::exchange(began_, true) && (head.type != H2Frame::kSettings || head.ack())) {
    connection_.fault(NGHTTP2_PROTOCOL_ERROR, "the first frame is not SETTINGS");
    return false;
  }
  const int32_t awaited = head.type == H2Frame::kContinuation ? head.stream : 0;
  const bool alone = head.type == H2Frame::kContinuation && head.stream == 0;
  if (heads_.awaited() == awaited && !alone && head.type != H2Frame::kPushPromise) return true;
  connection_.fault(NGHTTP2_PROTOCOL_ERROR, "a frame that has no place here");
  return false;
}

bool H2Receiver::has_its_length(const FrameHead& head) {
  auto fits = [&](bool good) {
    if (!good) connection_.fault(NGHTTP2_FRAME_SIZE_ERROR, "a frame of a length that it cannot have");
    return good;
  };
  if (head.length > largest_) return fits(false);
  switch (head.type) {
    case H2Frame::kPriority: return fits(head.length == 5);
    case H2Frame::kRstStream:
    case H2Frame::kWindowUpdate: return fits(head.length == 4);
    case H2Frame::kPing: return fits(head.length == 8);
    case H2Frame::kGoaway: return fits(head.length >= 8);
    case H2Frame::kSettings:
      if (!fits(head.ack() ? head.length == 0 : head.length % H2Settings::kEntry == 0)) return false;
      if (head.length <= H2Settings::kEntry * H2Settings::kMost) return true;
      connection_.fault(NGHTTP2_ENHANCE_YOUR_CALM, "a SETTINGS frame with too many entries");
      return false;
    default: return true;
  }
}

// --- control frames --------------------------------------------------------------------------------------------------

void H2Receiver::on_control(const FrameHead& head, std::string_view payload) {
  switch (head.type) {
    case H2Frame::kSettings: return on_settings(head, payload);
    case H2Frame::kPing: return on_ping(head, payload);
    case H2Frame::kGoaway: return on_goaway(head);
    case H2Frame::kWindowUpdate: return on_window_update(head, number_in(payload) & kId);
    case H2Frame::kRstStream:
      if (!cancels_unsent(connection_, head.stream, number_in(payload))) on_reset(head);
      return;
    default: return;  // PRIORITY says nothing here (RFC 9113 §5.3.2), and frame_rules.h has looked at it
  }
}

void H2Receiver::on_settings(const FrameHead& head, std::string_view payload) {
  if (head.stream != 0) return connection_.fault(NGHTTP2_PROTOCOL_ERROR, "SETTINGS of a stream");
  if (!head.ack()) return settings_.received(payload);
  settings_.acknowledged();
  largest_ = largest_frame_taken(connection_.limits);
}

void H2Receiver::on_ping(const FrameHead& head, std::string_view payload) {
  if (head.stream != 0) return connection_.fault(NGHTTP2_PROTOCOL_ERROR, "PING of a stream");
  if (!head.ack()) connection_.send(H2Frame::kPing, NGHTTP2_FLAG_ACK, 0, payload);
}

// §6.8: the stream that it names is one that we have pushed, and we push none. So it says nothing, and some clients
// name one of their own (Go's). It does not keep a client from opening streams: they are served while others are open.
void H2Receiver::on_goaway(const FrameHead& head) {
  if (head.stream != 0) return connection_.fault(NGHTTP2_PROTOCOL_ERROR, "GOAWAY of a stream");
  connection_.goaway_received = true;
}

void H2Receiver::on_window_update(const FrameHead& head, uint32_t by) {
  if (head.stream == 0) {
    if (by == 0) return connection_.fault(NGHTTP2_PROTOCOL_ERROR, "WINDOW_UPDATE by 0");
    connection_.window += by;
    if (connection_.window > kH2LargestWindow)
      connection_.fault(NGHTTP2_FLOW_CONTROL_ERROR, "the connection's window beyond 2^31-1");
    return;
  }
  if (connection_.idle(head.stream))
    return connection_.fault(NGHTTP2_PROTOCOL_ERROR, "WINDOW_UPDATE on a stream that is idle");
  H2Exchange* x = connection_.exchange_of(head.stream);
  if (!x) return;
  if (by == 0) return connection_.fault(NGHTTP2_PROTOCOL_ERROR, "WINDOW_UPDATE by 0");
  x->flow.window += by;
  if (x->flow.window > kH2LargestWindow) return streams_.reset(*x, NGHTTP2_FLOW_CONTROL_ERROR);
  sender_.queue(*x);
}

void H2Receiver::on_reset(const FrameHead& head) {
  if (connection_.idle(head.stream))
    return connection_.fault(NGHTTP2_PROTOCOL_ERROR, "RST_STREAM of a stream that is idle");
  H2Exchange* x = connection_.exchange_of(head.stream);
  if (!x) return connection_.guard.finished_was_reset();
  stream_was_reset(*x);
  streams_.end_stream(*x);
}

void H2Receiver::stream_was_reset(H2Exchange& x) {
  const bool late = past_own_deadline(x, connection_.now);
  bool premature = !x.out.started && !late && connection_.now - x.record().began < kYoung;
  connection_.guard.stream_closed(premature ? Guard::Life::kPremature : Guard::Life::kUseful);
  // Sent, not just handed over: what is answered at once would make resets in the same read free.
  if (late || x.out.finished || x.record().bytes_out > x.out.backlog) connection_.guard.reset_was_fair();
  x.asked_reset = true;  // counted here, not again when the stream closes
}

}  // namespace weir::wire
