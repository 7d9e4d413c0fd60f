#include "wire/h2_receiver.h"

#include <utility>

#include "wire/body_memory.h"
#include "wire/grpc_status.h"
#include "wire/router.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr base::Duration kYoung = std::chrono::seconds(1);  // Envoy: a reset before this age is premature
constexpr size_t kFieldCost = 32;                           // of a field beside its text, as HPACK counts
constexpr int32_t kLastStreamId = 0x7fffffff;

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
  rules_.begin(trailers_ ? H2HeadRules::Block::kTrailers : H2HeadRules::Block::kRequest);
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
  H2Exchange* x = heading_;
  HeaderBudget& budget = x ? x->in.budget : nobodys_;
  HeaderBudget::Fit fit = budget.add(connection_.limits, name.size(), value.size());
  if (fit == HeaderBudget::Fit::kHard) {
    connection_.condemn(reason::kHeaderBytes, H2Error::kEnhanceYourCalm, "header fields too large");
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
  if (!x) return 0;
  if (!rules_.field(name, value) || trailers_) return 0;  // trailers of requests mean nothing here
  value = trim(value);  // it is no part of the value (RFC 9110 §5.5), and gRPC allows to strip it
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

int H2Receiver::on_head(const nghttp2_frame& frame) {
  H2Exchange* x = std::exchange(heading_, nullptr);
  if (!x) return 0;
  const bool ends = frame.hd.flags & NGHTTP2_FLAG_END_STREAM;
  if (!well_formed(*x, ends)) return malformed(x->stream());
  if (auto asked = rules_.priority())
    nghttp2_session_change_extpri_stream_priority(connection_.session(), x->stream(), &*asked, 0);
  if (!trailers_) begin_request(*x);
  if (ends) bodies_.end(*x);
  return 0;
}

// Trailers end the stream (RFC 9113 §8.1), and a head is none. The body is as long as was announced.
bool H2Receiver::well_formed(const H2Exchange& x, bool ends) const {
  if (!rules_.well_formed() && !repeated_) return false;
  if (trailers_ && (!ends || repeated_)) return false;
  return !ends || missing(x) == 0;
}

// A stream error (§8.1.1).
int H2Receiver::malformed(int32_t stream) {
  connection_.reset_stream(stream, NGHTTP2_PROTOCOL_ERROR);
  return on_invalid_frame(NGHTTP2_ERR_HTTP_MESSAGING);
}

int H2Receiver::on_last_data(int32_t stream) {
  H2Exchange* x = connection_.exchange_of(stream);
  if (!x) return 0;
  if (missing(*x) == 0)
    bodies_.end(*x);
  else
    connection_.reset_stream(stream, NGHTTP2_PROTOCOL_ERROR);
  return 0;
}

int H2Receiver::on_frame(const nghttp2_frame& frame) {
  switch (frame.hd.type) {
    case NGHTTP2_HEADERS: return on_head(frame);
    case NGHTTP2_DATA:
      if (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) return on_last_data(frame.hd.stream_id);
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
  if (!x.over) bodies_.begin(x, plan);
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
  bodies_.refuse(x, status, reason, text);
}

int H2Receiver::on_stream_close(int32_t stream) {
  H2Exchange* x = connection_.exchange_of(stream);
  connection_.forget_exchange(stream);
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
