#include "wire/h2_receiver.h"

#include <charconv>
#include <utility>

#include "wire/body_memory.h"
#include "wire/body_starts.h"
#include "wire/grpc_status.h"
#include "wire/router.h"
#include "wire/service_guard.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr base::Duration kYoung = std::chrono::seconds(1);  // Envoy: a reset before this age is premature
constexpr size_t kFieldCost = 32;                           // of a field beside its text, as HPACK counts
constexpr int32_t kLastStreamId = 0x7fffffff;

int64_t parse_length(std::string_view digits) {
  int64_t n = -1;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  return error == std::errc() && end == digits.data() + digits.size() ? n : -1;
}

uint32_t least_rate(const H2Connection& c, const H2Exchange& x) {
  return floor_rate(c.limits.min_body_rate, x.request_body.reserved(), c.env.slabs);
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

}  // namespace

int H2Receiver::on_begin_headers(const nghttp2_frame& frame) {
  int32_t stream = frame.hd.stream_id;
  trailers_ = frame.headers.cat != NGHTTP2_HCAT_REQUEST;
  if (trailers_) {
    heading_ = connection_.exchange_of(stream);
    return 0;
  }
  heading_ = nullptr;
  nobodys_.clear();
  if (stream == kLastStreamId) nghttp2_submit_goaway(connection_.session(), 0, stream, NGHTTP2_NO_ERROR, nullptr, 0);
  if (streams_.full())
    connection_.reset_stream(stream, NGHTTP2_REFUSED_STREAM);
  else
    open_head(stream);
  return 0;
}

void H2Receiver::open_head(int32_t stream) {
  heading_ = &streams_.open(stream);
  if (!repeated_) return heading_->forget_head();
  if (!heading_->repeat(*repeated_)) streams_.charge_head(*heading_, repeated_->bytes);
}

int H2Receiver::on_header(std::string_view name, std::string_view value) {
  if (repeated_) return 0;  // of its stand-in
  H2Exchange* x = heading_;
  HeaderBudget& budget = x ? x->in.budget : nobodys_;
  HeaderBudget::Fit fit = budget.add(connection_.limits, name.size(), value.size());
  if (fit == HeaderBudget::Fit::kHard) {
    connection_.condemn(reason::kHeaderBytes, H2Error::kEnhanceYourCalm, "header fields too large");
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
  if (!x || trailers_) return 0;  // trailers of requests mean nothing here
  value = trim(value);            // it is no part of the value (RFC 9110 §5.5), and gRPC allows to strip it
  if (name == "content-type") x->in.grpc = is_grpc(value);
  // Nothing is kept of what will be refused.
  if (fit == HeaderBudget::Fit::kSoft || !streams_.charge_head(*x, name.size() + value.size() + kFieldCost)) return 0;
  if (name[0] == ':')
    pseudo_field(x->mutable_request(), name, value);
  else
    field(*x, name, value);
  return 0;
}

// RFC 8441's CONNECT for a WebSocket looks to services like HTTP/1's GET with an Upgrade; a client cannot send that
// field itself, for HTTP/2 does not allow it.
void H2Receiver::pseudo_field(Request& request, std::string_view name, std::string_view value) {
  if (name == ":path")
    request.target = value;
  else if (name == ":protocol")
    request.fields.add("upgrade", value);
  else if (name == ":method")
    request.method = value;
  else if (name == ":authority")
    request.authority = value;
}

void H2Receiver::field(H2Exchange& x, std::string_view name, std::string_view value) {
  Request& request = x.mutable_request();
  switch (name.size()) {
    case 4:
      if (name != "host") break;
      x.host = value;
      return;
    case 6:
      if (name == "expect") x.in.expects_continue = same_text(value, "100-continue");
      if (name != "cookie") break;
      if (!x.cookie.empty()) x.cookie += "; ";  // RFC 9113 §8.2.3
      x.cookie += value;
      return;
    case 14:
      if (name == "content-length") request.content_length = parse_length(value);
      break;
    case 16:
      if (name == "content-encoding") x.in.coded = true;
      break;
  }
  request.fields.add(name, value);
}

int H2Receiver::on_frame(const nghttp2_frame& frame) {
  bool ends = frame.hd.flags & NGHTTP2_FLAG_END_STREAM;
  switch (frame.hd.type) {
    case NGHTTP2_HEADERS: {
      H2Exchange* x = heading_;
      heading_ = nullptr;
      if (!x) break;
      if (!trailers_) begin_request(*x);
      if (ends) request_end(*x);
      break;
    }
    case NGHTTP2_DATA:
      if (!ends) break;
      if (H2Exchange* x = connection_.exchange_of(frame.hd.stream_id)) request_end(*x);
      break;
    case NGHTTP2_SETTINGS: connection_.blocks.forget(); break;
    case NGHTTP2_RST_STREAM:
      if (H2Exchange* x = connection_.exchange_of(frame.hd.stream_id))
        stream_was_reset(*x);
      else
        connection_.guard.finished_was_reset();
      break;
  }
  return 0;
}

void H2Receiver::stream_was_reset(H2Exchange& x) {
  const bool late = past_own_deadline(x, connection_.now);
  bool premature = !x.out.started && !late && connection_.now - x.record().began < kYoung;
  connection_.guard.stream_closed(premature ? Guard::Life::kPremature : Guard::Life::kUseful);
  // Sent, not just handed over: what is answered at once would make resets in the same read free.
  if (late || x.out.finished || x.record().bytes_out > x.out.backlog) connection_.guard.reset_was_fair();
  x.asked_reset = true;  // counted here, not again when the stream closes
}

// The head is complete: judge what the library does not, then ask the Intake.
void H2Receiver::begin_request(H2Exchange& x) {
  if (!take_head(x) || (!repeated_ && !check_head(x))) return;
  if (known_) known_->learn(block_, x.request(), x.in.grpc, x.in.coded);
  x.name_client(connection_.env.proxies);
  x.begun = true;
  Plan plan = connection_.env.intake.begin(x);
  if (!x.over) plan_body(x, plan);
}

// False: the request is refused.
bool H2Receiver::check_head(H2Exchange& x) {
  Request& request = x.mutable_request();
  if (!take_authority(x)) return false;
  if (!x.cookie.empty()) request.fields.add("cookie", x.cookie);
  if (request.method != "CONNECT") return true;
  // A 200 to any other would say that a tunnel is open.
  if (!same_text(request.fields.find("upgrade"), "websocket")) {
    reject(x, 501, reason::kParse, "CONNECT is supported for the protocol websocket only");
    return false;
  }
  request.method = "GET";
  return true;
}

// False: its fields are too many, too large, or found no memory.
bool H2Receiver::take_head(H2Exchange& x) {
  if (x.in.budget.over()) {
    bool many = x.in.budget.fields() > connection_.limits.header_fields;
    reject(x, 431, many ? reason::kHeaderCount : reason::kHeaderBytes, "request header fields too large");
    return false;
  }
  if (!x.in.no_memory) return true;
  Request& request = x.mutable_request();
  request.fields = {};
  request.kept = HeadKept::kNot;  // without them it is no later request's
  x.match.reset();
  reject(x, 503, reason::kOverload, kNoMemoryForHead);
  return false;
}

// :authority, or the Host field in its place; both must say the same.
bool H2Receiver::take_authority(H2Exchange& x) {
  Request& request = x.mutable_request();
  if (request.authority.empty()) {
    request.authority = x.host;
  } else if (!x.host.empty() && !same_text(x.host, request.authority)) {
    reject(x, 400, reason::kHost, "host and :authority differ");
    return false;
  }
  if (is_authority(request.authority)) return true;
  reject(x, 400, reason::kHost, "malformed :authority");
  return false;
}

// The request is refused before the Intake has seen it.
void H2Receiver::reject(H2Exchange& x, int status, std::string_view reason, std::string_view text) {
  connection_.env.intake.rejected(reason, connection_.peer);
  refuse(x, status, reason, text);
}

void H2Receiver::plan_body(H2Exchange& x, Plan plan) {
  x.in.plan = plan.body;
  x.in.limit = plan.limit;
  x.in.discard = plan.body == BodyPlan::kIgnore || x.out.ended || (plan.body == BodyPlan::kWhole && x.out.started);
  if (plan.body == BodyPlan::kWhole && !x.in.discard && !collect_body(x, plan.limit)) return;
  if (plan.body != BodyPlan::kStream) x.in.floor.start(connection_.now);
  if (x.in.expects_continue && !x.in.discard && !x.out.started && !x.in.ended) send_continue(x);
}

// False: the request is refused.
bool H2Receiver::collect_body(H2Exchange& x, uint64_t limit) {
  const Request& request = x.request();
  Coding coding = Coding::kIdentity;
  if (x.in.coded) {
    auto known = body_coding(request.fields.find("content-encoding"));
    if (!known) {
      refuse(x, 415, reason::kParse, "unknown content-encoding");
      return false;
    }
    coding = *known;
  }
  if (request.content_length > int64_t(limit))
    return refuse(x, 413, reason::kBodyBytes, "request body too large"), false;
  x.request_body.begin(connection_.wire, connection_.env.slabs,
                       {request.content_length,
                        coding,
                        {limit, connection_.limits.inflate_ratio},
                        {connection_.env.bodies, request.peer->client.get()},
                        &connection_.inflating});
  return true;
}

void H2Receiver::send_continue(H2Exchange& x) {
  nghttp2_nv nv{(uint8_t*)":status", (uint8_t*)"100", 7, 3,
                NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
  nghttp2_submit_headers(connection_.session(), NGHTTP2_FLAG_NONE, x.stream(), nullptr, &nv, 1, nullptr);
}

int H2Receiver::on_data(int32_t stream, std::span<const std::byte> piece) {
  H2Exchange* x = connection_.exchange_of(stream);
  if (!x) {
    nghttp2_session_consume(connection_.session(), stream, piece.size());
    return 0;
  }
  x->record().bytes_in += piece.size();
  x->usage.note(*x);
  if (x->out.finished) {  // unread, and its own window is not opened again: check_unread()
    nghttp2_session_consume_connection(connection_.session(), piece.size());
    return 0;
  }
  x->in.unconsumed += piece.size();
  x->in.floor.add(piece.size()), pace_.add(piece.size());
  x->in.moved = connection_.now;
  const bool streams = x->in.plan == BodyPlan::kStream;
  if (x->in.discard || x->over || x->out.ended || (streams && !x->listener())) {
    streams_.consume(*x, piece.size());
  } else if (streams) {
    if (auto* starts = connection_.env.starts) starts->received(*x, piece);
    notify_data(*x, piece);
  } else {
    collected(*x, x->request_body.put(piece));
  }
  return 0;
}

std::span<std::byte> H2Receiver::landing(int32_t stream) {
  H2Exchange* x = connection_.exchange_of(stream);
  if (!x || x->out.finished || x->in.discard || x->over || x->out.ended) return {};
  if (x->in.plan == BodyPlan::kStream) return x->listener() ? x->listener()->landing() : std::span<std::byte>();
  return x->request_body.landing();
}

void H2Receiver::request_end(H2Exchange& x) {
  if (x.in.ended) return;
  x.in.ended = true;
  x.in.floor.stop();
  if (x.over || x.in.discard || x.out.ended) return;
  if (x.in.plan == BodyPlan::kWhole) return collected(x, x.request_body.end());
  if (x.in.plan == BodyPlan::kStream) notify_end(x);
}

// Flow control follows the slab: a stalled body gives nothing back, so its peer stops at the window's end.
void H2Receiver::collected(H2Exchange& x, RequestBody::State state) {
  using State = RequestBody::State;
  x.in.stalled = state == State::kStalled;
  if (x.request_body.paused()) connection_.wire.tick_next_turn();
  if (x.in.stalled) return x.in.floor.stop();
  if (!x.in.ended) x.in.floor.start(connection_.now);
  streams_.consume(x, x.in.unconsumed);
  if (!x.in.wide && state == State::kOpen) streams_.expect(x, x.request_body.expected());
  switch (state) {
    case State::kTooBig:
      return refuse(x, 413, x.in.coded ? reason::kInflateBytes : reason::kBodyBytes, "request body too large");
    case State::kOverRatio: return refuse(x, 413, reason::kInflateBytes, kOverRatioText);
    case State::kNoMemory:
      return refuse(x, 503, reason::kOverload, "there is no memory for the request body; try again later");
    case State::kCorrupt: return refuse(x, 400, reason::kParse, "request body is not in its content-encoding");
    case State::kDone: x.set_content(x.request_body.take()); return connection_.env.intake.whole(x);
    default: return;
  }
}

// Others need the body's memory, or it has waited for some in vain.
void H2Receiver::settle_lost(H2Exchange& x) {
  auto why = x.request_body.take_loss();
  if (!why || x.over || x.in.discard) return;
  x.in.stalled = false;
  streams_.consume(x, x.in.unconsumed);
  if (*why == BodyMemory::Loss::kSilent) return refuse(x, 408, reason::kSlowBody, kMemoryGivenAway);
  refuse(x, 503, reason::kOverload, kNoMemoryInTime);
}

void H2Receiver::retry_body(H2Exchange& x) {
  if (!x.out.started) return collected(x, x.request_body.retry());
  x.in.discard = true;  // answered before its body had a place
  x.in.stalled = false;
  x.request_body.clear();
  streams_.consume(x, x.in.unconsumed);
}

void H2Receiver::check_pace() {
  uint64_t rate = 0;
  for (auto& x : streams_.live()) rate += x->in.floor.running() ? least_rate(connection_, *x) : 0;
  pace_.look(connection_.now, rate, connection_.limits.grace);
}

bool H2Receiver::check(H2Exchange& x) {
  const Limits& limits = connection_.limits;
  settle_lost(x);
  if (x.in.stalled) retry_body(x);
  if (x.in.floor.below(connection_.now, least_rate(connection_, x), limits.grace)) {
    if (pace_.below()) return streams_.cut_off(x, reason::kSlowBody), false;
    x.in.floor.stop(), x.in.floor.start(connection_.now);
  }
  bool streaming = x.in.plan == BodyPlan::kStream && !x.in.ended && x.begun;
  if (!streaming || connection_.now - x.in.moved < limits.stream_idle) return true;
  streams_.cut_off(x, reason::kIdle);
  return false;
}

// An answer of the codec's own, in place of a service's.
void H2Receiver::refuse(H2Exchange& x, int status, std::string_view reason, std::string_view text) {
  x.in.discard = true;
  x.request_body.clear();
  x.record().reject = reason;
  if (x.out.started) return x.reset(Reset::kCancel);
  bool ours = status == 431 || status == 413 || reason == reason::kOverload;
  x.record().code = ours ? base::Code::kResourceExhausted : base::code_from_http(status);
  if (status == 503) x.add_extra_fields().add("retry-after", "1");
  if (!x.in.grpc) return x.respond(status, "application/json", base::Bytes::adopt(error_json(text)));
  Response response;
  response.fields.add("content-type", "application/grpc");
  response.fields.add("grpc-status", std::to_string(int(x.record().code)));
  response.fields.add("grpc-message", text);
  x.head(std::move(response));
  x.end({});
}

int H2Receiver::on_stream_close(int32_t stream) {
  H2Exchange* x = connection_.exchange_of(stream);
  if (!x) return 0;
  if (heading_ == x) heading_ = nullptr;
  x->open_stream = false;
  if (x->in.unconsumed > 0) {  // what was never dealt with still fills the connection's window
    nghttp2_session_consume_connection(connection_.session(), std::exchange(x->in.unconsumed, 0));
  }
  if (!x->asked_reset) connection_.guard.stream_closed(Guard::Life::kUseful);
  if (x->out.finished) connection_.guard.stream_finished();
  if (x->out.finished)
    streams_.sweep_later(*x);
  else
    streams_.close(*x, false);
  return 0;
}

int H2Receiver::on_invalid_frame(int lib_error) {
  if (lib_error == NGHTTP2_ERR_REFUSED_STREAM && !connection_.guard.settings_acked()) return 0;
  ++connection_.owed_resets;
  return connection_.guard.glitch(connection_.now) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

}  // namespace weir::wire
