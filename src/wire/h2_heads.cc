#include "wire/h2_heads.h"

#include <utility>

#include "wire/body_memory.h"
#include "wire/grpc_status.h"
#include "wire/router.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr size_t kFieldCost = 32;  // of a field beside its text, as HPACK counts
constexpr int32_t kLastStreamId = 0x7fffffff;
constexpr uint8_t kEndOfStream = 0x1, kEndOfHeaders = 0x4;

// A block and nothing else: no padding, no priority, no frame that continues it.
bool is_bare(const FrameHead& head) {
  return head.type == H2Frame::kHeaders && (head.flags & ~kEndOfStream) == kEndOfHeaders;
}

}  // namespace

void H2Heads::take(const H2FrameReader& from) {
  const FrameHead& head = from.head();
  const bool whole = from.first() && from.last();
  if (whole && is_bare(head)) return take_block(head, from.payload());
  forget();
  if (head.type == H2Frame::kHeaders && from.first()) begin(head, from.depends_on());
  const bool complete_now = from.last() && (head.flags & kEndOfHeaders);
  awaited_ = complete_now ? 0 : head.stream;
  if (connection_.guard.verdict()) return;
  decode(from.payload(), complete_now ? BlockRest::kNone : BlockRest::kFollows);
  if (complete_now && !connection_.guard.verdict()) complete();
}

void H2Heads::take_block(const FrameHead& head, std::string_view block) {
  if (!cache_ && std::exchange(had_request_, true)) cache_ = std::make_unique<H2HeadCache>(ids_);
  repeated_ = cache_ ? cache_->find(block) : nullptr;
  if (cache_ && !repeated_ && cache_->is_worth_learning(block)) learned_ = block;
  begin(head, -1);
  if (!repeated_ && !connection_.guard.verdict()) decode(block, BlockRest::kNone);
  if (!connection_.guard.verdict()) complete();
  const bool decoded = !std::exchange(repeated_, nullptr);
  learned_ = {};
  if (decoded) charge();
}

// --- blocks ----------------------------------------------------------------------------------------------------------

// A block is decoded also where nobody wants it: the table changes.
void H2Heads::begin(const FrameHead& head, int32_t depends_on) {
  kind_ = Block::kDropped;
  ends_ = head.end_stream();
  stream_ = head.stream;
  dropped_fields_.clear();
  if (const H2Exchange* x = connection_.exchange_of(stream_)) {
    if (x->flow.whole) return connection_.fault(NGHTTP2_STREAM_CLOSED, "HEADERS on a stream that has ended");
    kind_ = Block::kTrailers;
    return rules_.begin(H2HeadRules::Block::kTrailers);
  }
  if (stream_ % 2 == 0) return connection_.fault(NGHTTP2_PROTOCOL_ERROR, "HEADERS on a stream that is no client's");
  if (stream_ <= connection_.last_seen) return;  // it has ended, perhaps by a reset that the client does not know of
  open(stream_, depends_on);
}

// Until our SETTINGS have been taken the client cannot know how many streams it may have open.
void H2Heads::open(int32_t stream, int32_t depends_on) {
  connection_.last_seen = stream;
  const bool too_many = connection_.open.size() >= connection_.limits.streams;
  if (too_many && connection_.settings_taken)
    return connection_.fault(NGHTTP2_PROTOCOL_ERROR, "more streams than may be open");
  if (connection_.goaway_sent) return;
  if (depends_on == stream) return connection_.fault(NGHTTP2_PROTOCOL_ERROR, "a stream that depends on itself");
  if (too_many) return connection_.send_reset(stream, NGHTTP2_REFUSED_STREAM);
  connection_.last_taken = stream;
  if (stream == kLastStreamId) {
    connection_.send_goaway(stream, NGHTTP2_NO_ERROR);
    connection_.goaway_sent = true;
  }
  rules_.begin(H2HeadRules::Block::kRequest);
  if (streams_.full()) return connection_.send_reset(stream, NGHTTP2_REFUSED_STREAM);
  kind_ = Block::kRequest;
  open_head(stream);
}

void H2Heads::open_head(int32_t stream) {
  H2Exchange& x = streams_.open(stream);
  if (!repeated_) return x.forget_head();
  if (!x.repeat(*repeated_)) streams_.charge_head(x, repeated_->bytes);
}

void H2Heads::decode(std::string_view piece, BlockRest rest) {
  const bool good = inflate_block(connection_.fields.inflater(), piece, rest,
                                  [&](std::string_view name, std::string_view value) { return field(name, value); });
  if (!good) connection_.fault(NGHTTP2_COMPRESSION_ERROR, "a header block that cannot be decoded");
}

// False: the connection is to end.
bool H2Heads::field(std::string_view name, std::string_view value) {
  H2Exchange* x = kind_ == Block::kDropped ? nullptr : connection_.exchange_of(stream_);
  HeaderBudget& budget = x ? x->in.budget : dropped_fields_;
  HeaderBudget::Fit fit = budget.add(connection_.limits, name.size(), value.size());
  if (fit == HeaderBudget::Fit::kHard) {
    connection_.condemn(reason::kHeaderBytes, H2Error::kEnhanceYourCalm, "header fields too large");
    return false;
  }
  if (!x || !rules_.field(name, value) || kind_ == Block::kTrailers) return true;  // those mean nothing here
  value = trim(value);  // it is no part of the value (RFC 9110 §5.5), and gRPC allows to strip it
  if (name == "content-type") x->in.grpc = is_grpc(value);
  // Nothing is kept of what will be refused.
  if (fit == HeaderBudget::Fit::kSoft || !streams_.charge_head(*x, name.size() + value.size() + kFieldCost))
    return true;
  if (name[0] == ':')
    pseudo_field(x->mutable_request(), name, value);
  else
    field(*x, name, value);
  return true;
}

// RFC 8441's CONNECT for a WebSocket looks to services like HTTP/1's GET with an Upgrade; a client cannot send that
// field itself, for HTTP/2 does not allow it.
void H2Heads::pseudo_field(Request& request, std::string_view name, std::string_view value) {
  if (name == ":path")
    request.target = value;
  else if (name == ":protocol")
    request.fields.add("upgrade", value);
  else if (name == ":method")
    request.method = value;
  else if (name == ":authority")
    request.authority = value;
}

void H2Heads::field(H2Exchange& x, std::string_view name, std::string_view value) {
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

// --- requests --------------------------------------------------------------------------------------------------------

void H2Heads::complete() {
  H2Exchange* x = kind_ == Block::kDropped ? nullptr : connection_.exchange_of(stream_);
  if (!x) return;
  if (!well_formed(*x)) return streams_.reset(*x, NGHTTP2_PROTOCOL_ERROR);  // RFC 9113 §8.1.1
  if (!repeated_)
    if (auto asked = rules_.priority()) x->flow.urgency = asked->urgency, x->flow.incremental = asked->inc != 0;
  x->flow.whole = ends_;
  if (kind_ == Block::kRequest) begin_request(*x);
  if (!ends_) return;
  bodies_.end(*x);
  if (x->open_stream && x->out.finished) streams_.end_stream(*x);
}

// Trailers end the stream (RFC 9113 §8.1), and a head is none. The body is as long as was announced.
bool H2Heads::well_formed(const H2Exchange& x) const {
  if (!rules_.well_formed() && !repeated_) return false;
  if (kind_ == Block::kTrailers && (!ends_ || repeated_)) return false;
  return !ends_ || missing(x) == 0;
}

// The head is complete: judge it as a whole, then ask the Intake.
void H2Heads::begin_request(H2Exchange& x) {
  if (!take_head(x) || (!repeated_ && !check_head(x))) return;
  if (!learned_.empty()) cache_->learn(learned_, x.request(), {x.in.grpc, x.in.coded});
  x.name_client(connection_.env.proxies);
  x.begun = true;
  Plan plan = connection_.env.intake.begin(x);
  if (!x.over) bodies_.begin(x, plan);
}

// False: the request is refused.
bool H2Heads::check_head(H2Exchange& x) {
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
bool H2Heads::take_head(H2Exchange& x) {
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
bool H2Heads::take_authority(H2Exchange& x) {
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
void H2Heads::reject(H2Exchange& x, int status, std::string_view reason, std::string_view text) {
  connection_.env.intake.rejected(reason, connection_.peer);
  bodies_.refuse(x, status, reason, text);
}

// --- the cache of heads ----------------------------------------------------------------------------------------------

// Called for a block that changes the table, or does not come in one piece.
void H2Heads::forget() {
  if (!cache_) return;
  cache_->forget();
  charge();
}

void H2Heads::drop() {
  cache_.reset();
  had_request_ = false;
  charge();
}

// Charges what the cache holds to the connection's heads. If there is no room for it, the cache is dropped.
void H2Heads::charge() {
  const uint64_t held = cache_ ? sizeof(H2HeadCache) + cache_->bytes() : 0;
  if (held < charged_) streams_.heads().give(std::exchange(charged_, held) - held);
  if (held == charged_) return;
  if (!streams_.heads().take(held - charged_)) return drop();
  charged_ = held;
}

}  // namespace weir::wire
