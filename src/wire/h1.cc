// HTTP/1.0 and 1.1 (RFC 9112), the reading half: heads through the gate, bodies to where the plan wants them.
//
// Nothing here recurses: a service that answers inside begin() or whole() only appends output; the next request is
// parsed by the loop in process().
#include "wire/h1.h"

#include <algorithm>
#include <utility>

#include "wire/router.h"
#include "wire/service_guard.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr uint64_t kDiscardable = 256 << 10;  // of a body that nobody wants, to keep the connection
constexpr size_t kKeptInput = 16 << 10;       // capacity of input_ that a quiet connection may keep
constexpr uint32_t kBlankLines = 1;           // before a request line, RFC 9112 §2.2

std::string_view view(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

H1::H1(const CodecEnv& env, Wire& wire, const PeerInfo& peer)
    : env_(env),
      memory_(base::ledger_of(env.slabs)),
      wire_(wire),
      peer_(peer),
      parser_(*this),
      heads_(memory_, base::MemoryKind::kInput, 0, owner_of_heads(env.bodies, peer.client.get())),
      idle_since_(wire.now()) {}
H1::~H1() = default;

void H1::feed(std::span<const std::byte> bytes) {
  busy_ = true;
  process(bytes);
  charge_input();
  busy_ = false;
  go_on_if_paused();
}

// What is kept of a read until more can be done with it. A request whose bytes find no room ends, and the connection
// with it: what follows could not be told from the rest of that request.
void H1::charge_input() {
  const uint64_t held = input_.capacity();
  if (held < input_charged_) heads_.give(std::exchange(input_charged_, held) - held);
  if (held == input_charged_) return;
  if (heads_.take(held - input_charged_)) {
    input_charged_ = held;
    return;
  }
  heads_.give(std::exchange(input_charged_, 0));
  input_ = std::string();
  input_at_ = 0;
  if (closing_) return;
  const HeadError refusal{503, reason::kOverload, kNoMemoryForHead};
  if (current_ && current_->open()) return fail(*current_, refusal);
  if (reading_ == Reading::kHead && queue_.size() < env_.limits.pipelined) return refuse(refusal);
  close_after_queue();
}

// What cannot be used yet stays in input_: a head without its end, a chunk's header, requests beyond the pipeline.
void H1::process(std::span<const std::byte> fresh) {
  const bool kept = waiting() > 0;
  if (kept) input_.append(view(fresh));
  std::string_view input = kept ? std::string_view(input_).substr(input_at_) : view(fresh);
  size_t used = 0;
  while (used < input.size()) {
    size_t n = step(input.substr(used));
    if (n == 0) break;
    used += n;
  }
  if (!kept) {
    input_.assign(input.substr(used));
    input_at_ = 0;
    return;
  }
  input_at_ += used;
  if (waiting() == 0) {
    drop_input();
  } else if (input_at_ > input_.size() / 2) {
    // Seldom enough that moving the rest costs no more than having appended it.
    input_.erase(0, input_at_);
    input_at_ = 0;
  }
}

void H1::drop_input() {
  if (input_.capacity() > kKeptInput)
    input_ = std::string();
  else
    input_.clear();
  input_at_ = 0;
}

size_t H1::step(std::string_view input) {
  switch (reading_) {
    case Reading::kHead:
      if (last_) reading_ = Reading::kNothing;
      if (last_) return step(input);
      return queue_.size() < env_.limits.pipelined ? step_head(input) : 0;
    case Reading::kBody:
      if (current_ && collector_.state() == BodyCollector::State::kStalled) return 0;
      return step_body(input);
    case Reading::kSlab: return 0;
    case Reading::kRaw: return step_raw(input);
    case Reading::kNothing: break;
  }
  discarded_ += input.size();
  return input.size();
}

size_t H1::step_head(std::string_view input) {
  if (head_since_ == base::kNever) head_since_ = wire_.now();
  HeadError refusal;
  size_t size = scan_.advance(input, env_.limits, &refusal);
  if (!refusal && size == 2 && ++blank_lines_ > kBlankLines) refusal = {400, reason::kParse, "malformed request line"};
  if (refusal) {
    refuse(refusal);
    return input.size();
  }
  if (size == 0) return 0;
  scan_.restart();
  if (size == 2) return size;
  blank_lines_ = 0;
  head_since_ = base::kNever;
  start_request(input.substr(0, size));
  return size;
}

void H1::start_request(std::string_view bytes) {
  Head head;
  head_text_.clear();
  if (HeadError refusal = inspect_head(bytes, env_.limits, &head, &head_text_)) return refuse(refusal);
  served_ = true;
  discarded_ = 0;
  H1Exchange& x = enqueue();
  x.start(head, std::move(head_text_.fields), peer_);
  x.name_client(env_.proxies);
  current_ = &x;
  if (!heads_.take(bytes.size())) return fail(x, {503, reason::kOverload, kNoMemoryForHead});
  x.charged_ = bytes.size();
  // The gate and the parser must have read the same; if ever not, the request is the kind that the gate is for.
  bool same = parser_.head(head_text_.for_parser) && parser_.chunked() == head.chunked &&
              (parser_.done() ? head.content_length <= 0 && !head.chunked
                              : head.chunked || parser_.remaining() == uint64_t(head.content_length));
  if (!same) return fail(x, {400, reason::kParse, "malformed request"});
  if (!head.keep_alive) stop_reading();
  start_body(x, head);
}

void H1::start_body(H1Exchange& x, const Head& head) {
  x.read_whole_ = parser_.done();
  if (x.read_whole_) x.await_100_ = false;
  x.begun_ = true;
  reading_ = Reading::kBody;
  body_watch_.stop();
  drop_body();
  x.plan_ = env_.intake.begin(x);
  if (closing_) return;  // answered already, and the connection ends with that: nothing behind it is read
  if (x.upgraded_ && x.open()) {
    reading_ = Reading::kRaw;
    moved_ = wire_.now();
    return;
  }
  if (x.plan_.body != BodyPlan::kIgnore && x.open() && !x.headed_) {
    if (head.content_length > 0 && uint64_t(head.content_length) > x.plan_.limit)
      return fail(x, {413, reason::kBodyBytes, "the request body is larger than the limit"});
    if (x.plan_.body == BodyPlan::kWhole) {
      auto coding = body_coding(x.request().fields.find("content-encoding"));
      if (!coding) {
        x.extra_fields().add("accept-encoding", "gzip, deflate");
        return fail(x, {415, reason::kParse, "unknown Content-Encoding; gzip and deflate are supported"});
      }
      collector_.begin(env_.slabs,
                       {head.content_length, *coding, InflateLimits{x.plan_.limit, env_.limits.inflate_ratio},
                        BodyOwner{env_.bodies, x.request().peer->client.get()}});
    }
    if (x.await_100_ && x.turn_) x.write_continue();
  }
  if (parser_.done()) request_read();
}

size_t H1::step_body(std::string_view input) {
  H1Parser::Fate fate;
  size_t taken = parser_.body(std::as_bytes(std::span(input)), &fate);
  body_watch_.count(taken);
  if (taken > 0) moved_ = wire_.now();
  if (fate == H1Parser::Fate::kBad && !body_refusal_)
    body_refusal_ = {400, reason::kFramingChunk, "malformed chunked body"};
  if (body_refusal_) {
    fail_current(std::exchange(body_refusal_, {}));
    return input.size();
  }
  if (discarded_ > kDiscardable) {
    close_after_queue();
    return input.size();
  }
  if (fate == H1Parser::Fate::kDone) request_read();
  return taken;
}

// What is read behind an upgrade goes on only as fast as it is dealt with.
size_t H1::step_raw(std::string_view input) {
  H1Exchange* x = current_;
  moved_ = wire_.now();
  if (!x || !x->open() || !x->listener()) {
    discarded_ += input.size();
    return input.size();
  }
  x->record().bytes_in += input.size();
  x->unconsumed_ += input.size();
  tell_data(*x, std::as_bytes(std::span(input)));
  return input.size();
}

void H1::on_body(std::span<const std::byte> piece) {
  H1Exchange* x = current_;
  const bool wanted = x && x->open() &&
                      (x->plan_.body == BodyPlan::kStream ? x->listener() != nullptr
                                                          : !x->headed_ && x->plan_.body == BodyPlan::kWhole);
  if (x) x->record().bytes_in += piece.size();
  if (!wanted) {
    discarded_ += piece.size();
  } else if (x->plan_.body == BodyPlan::kWhole) {
    auto state = collector_.put(piece);
    follow_body(state);
    if (state != BodyCollector::State::kOpen && state != BodyCollector::State::kStalled) body_settled(state);
  } else if ((x->received_ += piece.size()) > x->plan_.limit) {
    body_refusal_ = {413, reason::kBodyBytes, "the request body is larger than the limit"};
  } else {
    x->unconsumed_ += piece.size();
    tell_data(*x, piece);
  }
}

// A body that holds slabs may have to give way, one that has none stands in line.
void H1::follow_body(BodyCollector::State state) {
  if (!env_.bodies) return;
  base::Client* client = current_ ? current_->request().peer->client.get() : nullptr;
  const bool open = state == BodyCollector::State::kOpen || collector_.paused();
  if (state == BodyCollector::State::kStalled && !open)
    env_.bodies->wait(*this, client, collector_.wanted());
  else if (open && collector_.reserved() > 0)
    env_.bodies->moved(*this, client);
  else
    env_.bodies->leave(*this);
}

void H1::drop_body() {
  collector_.clear();
  lost_.reset();
  if (env_.bodies) env_.bodies->leave(*this);
}

// Others need the body's memory, or it has waited for some in vain.
void H1::settle_lost() {
  auto why = std::exchange(lost_, std::nullopt);
  if (!why || !current_) return;
  if (*why == BodyMemory::Loss::kSilent) return fail_current({408, reason::kSlowBody, kMemoryGivenAway});
  fail_current({503, reason::kOverload, kNoMemoryInTime});
}

// The request that was being read is complete.
void H1::request_read() {
  if (closing_) return;  // broken off while its last bytes were handed on: nothing is taken behind it
  reading_ = Reading::kHead;
  H1Exchange* x = std::exchange(current_, nullptr);
  if (!x) return;
  x->read_whole_ = true;
  x->await_100_ = false;
  if (!x->open()) return;
  if (x->plan_.body == BodyPlan::kStream) {
    tell_end(*x);
  } else if (x->plan_.body == BodyPlan::kWhole && !x->headed_) {
    current_ = x;
    body_settled(collector_.end());
    if (body_refusal_) fail_current(std::exchange(body_refusal_, {}));
  }
}

// Leaves body_refusal_ behind where something is wrong with the body.
void H1::body_settled(BodyCollector::State state) {
  switch (state) {
    case BodyCollector::State::kOpen: return;
    case BodyCollector::State::kStalled: reading_ = Reading::kSlab; return follow_body(state);
    case BodyCollector::State::kCorrupt:
      body_refusal_ = {400, reason::kParse, "the request body is not in its Content-Encoding"};
      return;
    case BodyCollector::State::kNoMemory:
      body_refusal_ = {503, reason::kOverload, "there is no memory for the request body; try again later"};
      return;
    case BodyCollector::State::kTooBig: {
      bool coded = !current_->request().fields.find("content-encoding").empty();
      body_refusal_ = {413, coded ? reason::kInflateBytes : reason::kBodyBytes,
                       "the request body is larger than the limit"};
      return;
    }
    case BodyCollector::State::kDone: break;
  }
  H1Exchange& x = *std::exchange(current_, nullptr);
  reading_ = Reading::kHead;
  x.content_ = collector_.take();
  follow_body(state);
  env_.intake.whole(x);
}

// A request that never became one: answered in its place in the queue, and the connection's last.
void H1::refuse(const HeadError& refusal) {
  H1Exchange& x = enqueue();
  x.read_whole_ = true;
  fail(x, refusal);
}

void H1::fail(H1Exchange& x, const HeadError& refusal) {
  if (x.begun_)
    x.record().reject = refusal.reason;
  else
    env_.intake.rejected(refusal.reason, peer_);
  stop_reading();
  reading_ = Reading::kNothing;
  current_ = nullptr;
  drop_body();
  x.close_ = true;
  if (x.headed_)
    x.reset(Reset::kInternal);
  else
    respond_error(x, refusal.status, refusal.text);
}

void H1::fail_current(const HeadError& refusal) {
  H1Exchange* x = std::exchange(current_, nullptr);
  if (x && x->open()) return fail(*x, refusal);
  close_after_queue();
}

// No more is read; the connection ends with the last answer that is due.
void H1::close_after_queue() {
  if (ended_ == queue_.size()) return close_now();
  stop_reading();
  reading_ = Reading::kNothing;
  current_ = nullptr;
  queue_.back()->close_ = true;
}

std::unique_ptr<Codec> make_h1(const CodecEnv& env, Wire& wire, const PeerInfo& peer) {
  return std::make_unique<H1>(env, wire, peer);
}

}  // namespace weir::wire
