#include "wire/h2_bodies.h"

#include <string>
#include <utility>

#include "wire/body_memory.h"
#include "wire/body_starts.h"
#include "wire/router.h"
#include "wire/service_guard.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

uint32_t least_rate(const H2Connection& c, const H2Exchange& x) {
  return floor_rate(c.limits.min_body_rate, x.request_body.reserved(), c.env.slabs);
}

}  // namespace

void H2Bodies::begin(H2Exchange& x, Plan plan) {
  x.in.plan = plan;
  x.in.discard = plan.body == BodyPlan::kIgnore || x.out.ended || (plan.body == BodyPlan::kWhole && x.out.started);
  if (plan.body == BodyPlan::kWhole && !x.in.discard && !collect(x, plan.limit)) return;
  if (plan.body != BodyPlan::kStream) x.in.floor.start(connection_.now);
  if (x.in.expects_continue && !x.in.discard && !x.out.started && !x.flow.whole) send_continue(x);
}

// False: the request is refused.
bool H2Bodies::collect(H2Exchange& x, uint64_t limit) {
  const Request& request = x.request();
  Coding coding = Coding::kIdentity;
  if (x.in.coded) {
    auto known = body_coding(request.fields.find("content-encoding"));
    if (!known) {
      x.extra_fields().add("accept-encoding", "gzip, deflate");
      refuse(x, 415, reason::kParse, kUnknownCodingText);
      return false;
    }
    coding = *known;
  }
  if (request.content_length > int64_t(limit)) return refuse(x, 413, reason::kBodyBytes, x.in.plan.too_large()), false;
  x.request_body.begin(connection_.wire, connection_.env.slabs,
                       {request.content_length,
                        coding,
                        {limit, connection_.limits.inflate_ratio},
                        {connection_.env.bodies, request.peer->client.get()},
                        &connection_.inflating});
  return true;
}

// The encoder is asked, for the first block behind a change of the table's size says so (RFC 7541 §4.2). This one
// leaves the table as it is.
void H2Bodies::send_continue(H2Exchange& x) {
  constexpr std::string_view kName = ":status", kValue = "100";
  auto bytes = [](std::string_view text) { return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data())); };
  const nghttp2_nv status{bytes(kName), bytes(kValue), kName.size(), kValue.size(), NGHTTP2_NV_FLAG_NO_INDEX};
  const std::string block = connection_.fields.encode({&status, 1});
  if (!block.empty()) connection_.send(H2Frame::kHeaders, NGHTTP2_FLAG_END_HEADERS, x.stream(), block);
}

void H2Bodies::begin_data(const H2FrameReader& from) {
  const FrameHead& head = from.head();
  if (connection_.idle(head.stream)) return connection_.fault(NGHTTP2_PROTOCOL_ERROR, "DATA on a stream that is idle");
  H2Exchange* x = connection_.exchange_of(head.stream);
  if (!x) return;
  if (x->flow.whole) return connection_.fault(NGHTTP2_STREAM_CLOSED, "DATA on a stream that has ended");
  if (head.length == 0 && head.end_stream() && !head.padded()) end_of_data(*x);
}

// The connection's window is less by all that comes, whatever becomes of it.
void H2Bodies::take(const H2FrameReader& from, H2FrameReader::Step kind) {
  const auto piece = std::as_bytes(std::span(from.payload()));
  if (!connection_.receive.take(piece.size()))
    return connection_.fault(NGHTTP2_FLOW_CONTROL_ERROR, "more DATA than the connection's window");
  H2Exchange* x = connection_.exchange_of(from.head().stream);
  if (!x) return connection_.consume(piece.size());
  if (!x->flow.receive.take(piece.size())) {
    streams_.reset(*x, NGHTTP2_FLOW_CONTROL_ERROR);
    return connection_.consume(piece.size());
  }
  if (kind == H2FrameReader::Step::kContent) {
    content(*x, piece);
  } else {
    connection_.consume(piece.size());
    connection_.widen(x->stream(), x->flow.receive.give(piece.size()));
  }
  if (from.at_end() && from.head().end_stream() && x->open_stream) end_of_data(*x);
}

void H2Bodies::content(H2Exchange& x, std::span<const std::byte> piece) {
  x.record().bytes_in += piece.size();
  x.usage.note(x);
  if (missing(x) < 0) streams_.reset(x, NGHTTP2_PROTOCOL_ERROR);  // RFC 9113 §8.1.1
  if (missing(x) < 0) return connection_.consume(piece.size());
  if (x.out.finished) return behind_answer(x, piece.size());
  x.in.unconsumed += piece.size();
  x.in.floor.add(piece.size()), connection_.pace.add(piece.size());
  x.in.moved = connection_.now;
  const bool streams = x.in.plan.body == BodyPlan::kStream;
  if (x.in.discard || x.over || x.out.ended || (streams && !x.listener())) {
    streams_.consume(x, piece.size());
  } else if (streams) {
    if (auto* starts = connection_.env.starts) starts->received(x, piece);
    notify_data(x, piece);
  } else {
    collected(x, x.request_body.put(piece));
  }
}

// See H2Sender::check_unread().
void H2Bodies::behind_answer(H2Exchange& x, size_t n) {
  x.out.behind += n, connection_.pace.add(n);
  x.in.moved = connection_.now;
  connection_.discard_rest(x, n);
}

void H2Bodies::end_of_data(H2Exchange& x) {
  x.flow.whole = true;
  if (missing(x) != 0) return streams_.reset(x, NGHTTP2_PROTOCOL_ERROR);
  end(x);
  if (x.open_stream && x.out.finished) streams_.end_stream(x);
}

std::span<std::byte> H2Bodies::receive_buffer(int32_t stream) {
  H2Exchange* x = connection_.exchange_of(stream);
  if (!x || x->out.finished || x->in.discard || x->over || x->out.ended) return {};
  if (x->in.plan.body == BodyPlan::kStream)
    return x->listener() ? x->listener()->receive_buffer() : std::span<std::byte>();
  return x->request_body.receive_buffer();
}

void H2Bodies::end(H2Exchange& x) {
  if (x.in.ended) return;
  x.in.ended = true;
  x.in.floor.stop();
  if (x.over || x.in.discard || x.out.ended) return;
  if (x.in.plan.body == BodyPlan::kWhole) return collected(x, x.request_body.end());
  if (x.in.plan.body == BodyPlan::kStream) notify_end(x);
}

// Flow control follows the slab: a stalled body gives nothing back, so its peer stops at the window's end.
void H2Bodies::collected(H2Exchange& x, RequestBody::State state) {
  using State = RequestBody::State;
  x.in.stalled = state == State::kStalled;
  if (x.request_body.paused()) connection_.wire.tick_next_turn();
  if (x.in.stalled) return x.in.floor.stop();
  if (!x.in.ended) x.in.floor.start(connection_.now);
  streams_.consume(x, x.in.unconsumed);
  if (!x.in.wide && state == State::kOpen) streams_.expect(x, x.request_body.expected());
  switch (state) {
    case State::kTooBig:
      return refuse(x, 413, x.in.coded ? reason::kInflateBytes : reason::kBodyBytes, x.in.plan.too_large());
    case State::kOverRatio: return refuse(x, 413, reason::kInflateBytes, kOverRatioText);
    case State::kNoMemory: return refuse(x, 503, reason::kOverload, kNoMemoryForBody);
    case State::kCorrupt: return refuse(x, 400, reason::kParse, kCorruptText);
    case State::kDone: x.set_content(x.request_body.take()); return connection_.env.intake.whole(x);
    default: return;
  }
}

// Others need the body's memory, or it has waited for some in vain.
void H2Bodies::settle_lost(H2Exchange& x) {
  auto why = x.request_body.take_loss();
  if (!why || x.over || x.in.discard) return;
  x.in.stalled = false;
  streams_.consume(x, x.in.unconsumed);
  if (*why == BodyMemory::Loss::kSilent) return refuse(x, 408, reason::kSlowBody, kMemoryGivenAway);
  refuse(x, 503, reason::kOverload, kNoMemoryInTime);
}

void H2Bodies::retry(H2Exchange& x) {
  if (!x.out.started) return collected(x, x.request_body.retry());
  x.in.discard = true;  // answered before its body had a place
  x.in.stalled = false;
  x.request_body.clear();
  streams_.consume(x, x.in.unconsumed);
}

void H2Bodies::check_pace() {
  uint64_t rate = 0;
  for (auto& x : streams_.live()) rate += x->in.floor.running() ? least_rate(connection_, *x) : 0;
  connection_.pace.look(connection_.now, rate, connection_.limits.grace);
}

bool H2Bodies::check(H2Exchange& x) {
  const Limits& limits = connection_.limits;
  settle_lost(x);
  if (x.in.stalled) retry(x);
  if (x.in.floor.below(connection_.now, least_rate(connection_, x), limits.grace)) {
    if (connection_.pace.below()) return streams_.cut_off(x, reason::kSlowBody), false;
    x.in.floor.stop(), x.in.floor.start(connection_.now);
  }
  bool streaming = x.in.plan.body == BodyPlan::kStream && !x.in.ended && x.begun;
  if (!streaming || connection_.now - x.in.moved < limits.stream_idle) return true;
  streams_.cut_off(x, reason::kIdle);
  return false;
}

// An answer of the codec's own, in place of a service's.
void H2Bodies::refuse(H2Exchange& x, int status, std::string_view reason, std::string_view text) {
  x.in.discard = true;
  x.request_body.clear();
  x.record().reject = reason;
  if (x.out.started) return x.reset(Reset::kCancel);
  bool ours = status == 431 || status == 413 || reason == reason::kOverload;
  x.record().code = ours ? base::Code::kResourceExhausted : base::code_from_http(status);
  if (status == 503) x.add_extra_fields().add("retry-after", "1");
  if (!x.in.grpc && x.begun) return connection_.env.intake.refuse(x, status, text);
  if (!x.in.grpc) return respond_error(x, status, text);
  Response response;
  response.fields.add("content-type", "application/grpc");
  response.fields.add("grpc-status", std::to_string(int(x.record().code)));
  response.fields.add("grpc-message", text);
  x.head(std::move(response));
  x.end({});
}

}  // namespace weir::wire
