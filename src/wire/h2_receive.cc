// From frames to Exchanges. Everything here runs inside nghttp2_session_mem_recv(); a callback that returns
// NGHTTP2_ERR_CALLBACK_FAILURE has left a verdict with the Guard.
#include <algorithm>
#include <charconv>

#include "wire/grpc_status.h"
#include "wire/h2_session.h"
#include "wire/service_guard.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr base::Duration kYoung = std::chrono::seconds(1);  // Envoy: a reset before this age is premature
constexpr size_t kWorkPerStream = 2;                        // live work : streams that may be open
constexpr size_t kFieldCost = 32;                           // of a field beside its text, as HPACK counts
constexpr int32_t kLastStreamId = 0x7fffffff;

int64_t parse_length(std::string_view digits) {
  int64_t n = -1;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  return error == std::errc() && end == digits.data() + digits.size() ? n : -1;
}

}  // namespace

int H2::on_begin_headers(const nghttp2_frame& frame) {
  int32_t stream = frame.hd.stream_id;
  trailers_ = frame.headers.cat != NGHTTP2_HCAT_REQUEST;
  if (trailers_) {
    heading_ = exchange_of(stream);
    return 0;
  }
  heading_ = nullptr;
  nobodys_.clear();
  if (stream == kLastStreamId) nghttp2_submit_goaway(session_, 0, stream, NGHTTP2_NO_ERROR, nullptr, 0);
  if (full()) {
    nghttp2_submit_rst_stream(session_, 0, stream, NGHTTP2_REFUSED_STREAM);
    return 0;
  }
  if (spare_.empty()) spare_.push_back(std::make_unique<H2Exchange>());
  heading_ = live_.emplace_back(std::move(spare_.back())).get();
  spare_.pop_back();
  heading_->index = live_.size() - 1;
  ++serving_;
  heading_->open(*this, stream, peer_);
  if (heading_->charged == 0) charge_head(*heading_, H2Exchange::kOwnCost);
  nghttp2_session_set_stream_user_data(session_, stream, heading_);
  return 0;
}

// Open streams are bounded by what we have announced, also before the peer has acknowledged it. Work that was reset but
// still runs has room beside them, for the peer cannot know of it; that room bounds what rapid resets leave at work.
bool H2::full() {
  if (live_.size() < limits_.streams) return false;
  settle();  // the peer counts a stream as closed from its reset on, so it may reuse the place within one read
  auto open = [](const auto& x) { return x->open_stream; };
  auto working = [](const auto& x) { return !x->closed || x->tickets() > 0; };
  return size_t(std::count_if(live_.begin(), live_.end(), open)) >= limits_.streams ||
         size_t(std::count_if(live_.begin(), live_.end(), working)) >= size_t(limits_.streams) * kWorkPerStream;
}

int H2::on_header(std::string_view name, std::string_view value) {
  H2Exchange* x = heading_;
  HeaderBudget& budget = x ? x->in.budget : nobodys_;
  HeaderBudget::Fit fit = budget.add(limits_, name.size(), value.size());
  if (fit == HeaderBudget::Fit::kHard) {
    condemn(reason::kHeaderBytes, H2Error::kEnhanceYourCalm, "header fields too large");
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
  if (!x || trailers_) return 0;  // trailers of requests mean nothing here
  if (name == "content-type") x->in.grpc = is_grpc(value);
  // Nothing is kept of what will be refused.
  if (fit == HeaderBudget::Fit::kSoft || !charge_head(*x, name.size() + value.size() + kFieldCost)) return 0;
  if (name[0] == ':')
    pseudo_field(x->mutable_request(), name, value);
  else
    field(*x, name, value);
  return 0;
}

bool H2::charge_head(H2Exchange& x, size_t bytes) {
  if (x.in.no_memory) return false;
  x.in.no_memory = !heads_.take(bytes);
  if (!x.in.no_memory) x.charged += bytes;
  return !x.in.no_memory;
}

// RFC 8441's CONNECT for a WebSocket looks to services like HTTP/1's GET with an Upgrade; a client cannot send that
// field itself, for HTTP/2 does not allow it.
void H2::pseudo_field(Request& request, std::string_view name, std::string_view value) {
  if (name == ":path")
    request.target = value;
  else if (name == ":protocol")
    request.fields.add("upgrade", value);
  else if (name == ":method")
    request.method = value;
  else if (name == ":authority")
    request.authority = value;
}

void H2::field(H2Exchange& x, std::string_view name, std::string_view value) {
  Request& request = x.mutable_request();
  switch (name.size()) {
    case 4:
      if (name != "host") break;
      x.in.host = value;
      return;
    case 6:
      if (name == "expect") x.in.expects_continue = same_text(value, "100-continue");
      if (name != "cookie") break;
      if (!x.in.cookie.empty()) x.in.cookie += "; ";  // RFC 9113 §8.2.3
      x.in.cookie += value;
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

int H2::on_frame(const nghttp2_frame& frame) {
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
      if (H2Exchange* x = exchange_of(frame.hd.stream_id)) request_end(*x);
      break;
    case NGHTTP2_RST_STREAM:
      if (H2Exchange* x = exchange_of(frame.hd.stream_id)) {
        bool premature = !x->out.started && now_ - x->record().began < kYoung;
        guard_.stream_closed(premature ? Guard::Life::kPremature : Guard::Life::kUseful);
        // Sent, not just handed over: what is answered at once would make resets in the same read free.
        if (x->out.finished || x->record().bytes_out > x->out.backlog) guard_.answered_was_reset();
        x->asked_reset = true;  // counted here, not again when the stream closes
      }
      break;
  }
  return 0;
}

// The head is complete: judge what the library does not, then ask the Intake.
void H2::begin_request(H2Exchange& x) {
  Request& request = x.mutable_request();
  if (x.in.budget.over()) {
    bool many = x.in.budget.fields() > limits_.header_fields;
    std::string_view why = many ? reason::kHeaderCount : reason::kHeaderBytes;
    env_.intake.rejected(why, peer_);
    return refuse(x, 431, why, "request header fields too large");
  }
  if (x.in.no_memory) {
    request.fields = {};
    env_.intake.rejected(reason::kOverload, peer_);
    return refuse(x, 503, reason::kOverload, kNoMemoryForHead);
  }
  if (request.authority.empty()) {
    request.authority = x.in.host;
  } else if (!x.in.host.empty() && !same_text(x.in.host, request.authority)) {
    env_.intake.rejected(reason::kHost, peer_);
    return refuse(x, 400, reason::kHost, "host and :authority differ");
  }
  if (!is_authority(request.authority)) {
    env_.intake.rejected(reason::kHost, peer_);
    return refuse(x, 400, reason::kHost, "malformed :authority");
  }
  if (!x.in.cookie.empty()) request.fields.add("cookie", x.in.cookie);
  if (request.method == "CONNECT") {
    // A 200 to any other would say that a tunnel is open.
    if (!same_text(request.fields.find("upgrade"), "websocket")) {
      env_.intake.rejected(reason::kParse, peer_);
      return refuse(x, 501, reason::kParse, "CONNECT is supported for the protocol websocket only");
    }
    request.method = "GET";
  }
  x.name_client(env_.proxies);
  x.begun = true;
  Plan plan = env_.intake.begin(x);
  if (!x.over) plan_body(x, plan);
}

void H2::plan_body(H2Exchange& x, Plan plan) {
  const Request& request = x.request();
  x.in.plan = plan.body;
  x.in.limit = plan.limit;
  x.in.discard = plan.body == BodyPlan::kIgnore || x.out.ended || (plan.body == BodyPlan::kWhole && x.out.started);
  if (plan.body == BodyPlan::kWhole && !x.in.discard) {
    Coding coding = Coding::kIdentity;
    if (x.in.coded) {
      auto known = body_coding(request.fields.find("content-encoding"));
      if (!known) return refuse(x, 415, reason::kParse, "unknown content-encoding");
      coding = *known;
    }
    if (request.content_length > int64_t(plan.limit))
      return refuse(x, 413, reason::kBodyBytes, "request body too large");
    x.collector.begin(env_.slabs, {request.content_length,
                                   coding,
                                   {plan.limit, limits_.inflate_ratio},
                                   {env_.bodies, request.peer->client.get()},
                                   &inflating_});
  }
  if (plan.body != BodyPlan::kStream) x.in.floor.start(now_);
  if (x.in.expects_continue && !x.in.discard && !x.out.started && !x.in.ended) {
    nghttp2_nv nv{(uint8_t*)":status", (uint8_t*)"100", 7, 3,
                  NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
    nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, x.stream(), nullptr, &nv, 1, nullptr);
  }
}

int H2::on_data(int32_t stream, std::span<const std::byte> piece) {
  H2Exchange* x = exchange_of(stream);
  if (!x) {
    nghttp2_session_consume(session_, stream, piece.size());
    return 0;
  }
  x->record().bytes_in += piece.size();
  if (x->out.finished) {  // unread, and its own window is not opened again: check_unread()
    nghttp2_session_consume_connection(session_, piece.size());
    return 0;
  }
  x->in.unconsumed += piece.size();
  x->in.floor.add(piece.size());
  x->in.moved = now_;
  if (x->in.discard || x->over || x->out.ended) {
    consume(*x, piece.size());
  } else if (x->in.plan == BodyPlan::kStream) {
    if (x->listener())
      tell_data(*x, piece);
    else
      consume(*x, piece.size());
  } else {
    collected(*x, x->collector.put(piece));
  }
  return 0;
}

void H2::request_end(H2Exchange& x) {
  if (x.in.ended) return;
  x.in.ended = true;
  x.in.floor.stop();
  if (x.over || x.in.discard || x.out.ended) return;
  if (x.in.plan == BodyPlan::kWhole) return collected(x, x.collector.end());
  if (x.in.plan == BodyPlan::kStream) tell_end(x);
}

// Flow control follows the slab: a stalled body gives nothing back, so its peer stops at the window's end.
void H2::collected(H2Exchange& x, BodyCollector::State state) {
  using State = BodyCollector::State;
  follow_body(x, state);
  x.in.stalled = state == State::kStalled;
  if (x.collector.paused()) wire_.tick_next_turn();
  if (x.in.stalled) return x.in.floor.stop();
  if (!x.in.ended) x.in.floor.start(now_);
  consume(x, x.in.unconsumed);
  if (!x.in.wide && state == State::kOpen) expect(x, x.collector.expected());
  switch (state) {
    case State::kTooBig:
      return refuse(x, 413, x.in.coded ? reason::kInflateBytes : reason::kBodyBytes, "request body too large");
    case State::kNoMemory:
      return refuse(x, 503, reason::kOverload, "there is no memory for the request body; try again later");
    case State::kCorrupt: return refuse(x, 400, reason::kParse, "request body is not in its content-encoding");
    case State::kDone: x.set_content(x.collector.take()); return env_.intake.whole(x);
    default: return;
  }
}

// A body that holds slabs may have to give way, one that has none stands in line.
void H2::follow_body(H2Exchange& x, BodyCollector::State state) {
  if (!env_.bodies) return;
  base::Client* client = x.request().peer->client.get();
  const bool open = state == BodyCollector::State::kOpen || x.collector.paused();
  if (state == BodyCollector::State::kStalled && !open)
    env_.bodies->wait(x, client, x.collector.wanted());
  else if (open && x.collector.reserved() > 0)
    env_.bodies->moved(x, client);
  else
    env_.bodies->leave(x);
}

void H2::drop_body(H2Exchange& x) {
  x.collector.clear();
  x.in.lost.reset();
  if (env_.bodies) env_.bodies->leave(x);
}

// An answer of the codec's own, in place of a service's.
void H2::refuse(H2Exchange& x, int status, std::string_view reason, std::string_view text) {
  x.in.discard = true;
  drop_body(x);
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

int H2::on_stream_close(int32_t stream) {
  H2Exchange* x = exchange_of(stream);
  if (!x) return 0;
  if (heading_ == x) heading_ = nullptr;
  x->open_stream = false;
  if (x->in.unconsumed > 0) {  // what was never dealt with still fills the connection's window
    nghttp2_session_consume_connection(session_, std::exchange(x->in.unconsumed, 0));
  }
  if (!x->asked_reset) guard_.stream_closed(Guard::Life::kUseful);
  if (x->out.finished)
    sweep_.push_back(x);
  else
    close_exchange(*x, false);
  return 0;
}

int H2::on_invalid_frame(int lib_error) {
  if (lib_error == NGHTTP2_ERR_REFUSED_STREAM && !guard_.settings_acked()) return 0;
  ++owed_resets_;
  return guard_.glitch(now_) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

}  // namespace weir::wire
