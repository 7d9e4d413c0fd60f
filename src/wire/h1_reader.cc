#include "wire/h1_reader.h"

#include <algorithm>
#include <utility>

#include "base/release.h"
#include "wire/body_starts.h"
#include "wire/router.h"
#include "wire/service_guard.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr uint64_t kDiscardable = 256 << 10;                      // of a body that nobody wants, to keep the connection
constexpr uint32_t kBlankLines = 8;                               // before a request line, RFC 9112 §2.2
constexpr uint64_t kDiscardAtEnd = 1 << 20;                       // of whatever comes after the last request
constexpr base::Duration kH1ShortIdle = std::chrono::seconds(2);  // where memory is short

constexpr HeadError kBodyTooLarge{413, reason::kBodyBytes, {}};  // Plan::too_large()
constexpr HeadError kNothingCame{408, reason::kIdle, "nothing has come for too long"};
std::unique_ptr<const HeadError> error_of(const HeadError& error) { return std::make_unique<HeadError>(error); }

using GatheredBody = std::unique_ptr<RequestBody>;  // or null

bool stalled(const GatheredBody& body) { return body && body->state() == RequestBody::State::kStalled; }
void clear(const GatheredBody& body) {
  if (body) body->clear();
}

// The gate and the parser must have read the same; if ever not, the request is the kind that the gate is for.
bool frame_body(H1Parser& parser, const HeadText& text, const Head& head) {
  if (text.for_parser.empty()) {
    parser.plain(uint64_t(std::max<int64_t>(head.content_length, 0)));
    return true;
  }
  return parser.head(text.for_parser) && parser.chunked() == head.chunked &&
         (parser.done() ? head.content_length <= 0 && !head.chunked
                        : head.chunked || parser.remaining() == uint64_t(head.content_length));
}

}  // namespace

H1Reader::H1Reader(H1Connection& connection, H1Queue& queue) : connection_(connection), queue_(queue), parser_(*this) {}

void H1Reader::process(std::string_view fresh) {
  std::string_view input = input_.join(fresh);
  size_t used = 0;
  while (used < input.size()) {
    size_t n = step(input.substr(used));
    if (n == 0) break;
    used += n;
  }
  input_.used(input, used);
  charge_input();
}

std::span<std::byte> H1Reader::receive_buffer() {
  const bool gathered = reading_ == Reading::kBody && current_ && current_->open() && !current_->headed_ &&
                        current_->plan_.body == BodyPlan::kWhole && body_ && input_.waiting() == 0;
  if (!gathered) return {};
  const auto room = body_->receive_buffer();
  return room.first(size_t(std::min<uint64_t>(room.size(), parser_.remaining())));
}

// A request whose bytes find no room ends, and the connection with it: what follows could not be told from the rest of
// that request.
void H1Reader::charge_input() {
  if (input_.charge(connection_.heads) || connection_.closing) return;
  const HeadError error{503, reason::kOverload, kNoMemoryForHead};
  if (current_ && current_->open()) return fail(*current_, error);
  if (reading_ == Reading::kHead && !queue_.full()) return fail(queue_.add_refused(), error);
  close_after_queue();
}

void H1Reader::release_input() {
  head_text_.reset();
  if (between_requests()) parser_.release();  // a body that is discarded goes on
  if (!current_) body_.reset();
  input_.release();
  charge_input();
}

size_t H1Reader::step(std::string_view input) {
  switch (reading_) {
    case Reading::kHead:
      if (!connection_.last) return queue_.full() ? 0 : step_head(input);
      reading_ = Reading::kNothing;
      return step(input);
    case Reading::kBody:
      if (current_ && stalled(body_)) return 0;
      return step_body(input);
    case Reading::kSlab: return 0;
    case Reading::kRaw: return step_raw(input);
    case Reading::kNothing: break;
  }
  discarded_ += input.size();
  return input.size();
}

size_t H1Reader::step_head(std::string_view input) {
  if (head_since_ == base::kNever) head_since_ = connection_.wire.now();
  HeadError error;
  // A head with the same bytes as the one before needs no new check: many clients send the same head again and again.
  size_t size = scan_.fresh() ? queue_.knows(input) : 0;
  Known known = size > 0 ? Known::kYes : Known::kNo;
  if (size == 0) size = scan_.advance(input, connection_.env.limits, &error);
  if (!error && size == 2 && ++blank_lines_ > kBlankLines) error = {400, reason::kParse, "malformed request line"};
  if (error) {
    fail(queue_.add_refused(), error);
    return input.size();
  }
  if (size == 0) return 0;
  scan_.restart();
  head_since_ = base::kNever;  // also behind a blank line: no head has begun
  if (size == 2) return size;
  blank_lines_ = 0;
  // A head that came in pieces has not been compared yet.
  if (known == Known::kNo && queue_.knows(input) == size) known = Known::kYes;
  start_request(input.substr(0, size), known);
  return size;
}

void H1Reader::start_request(std::string_view bytes, Known known) {
  Head head;
  if (!head_text_) head_text_ = std::make_unique<HeadText>();
  head_text_->clear();
  if (known == Known::kNo)
    if (HeadError error = inspect_head(bytes, connection_.env.limits, &head, head_text_.get()))
      return fail(queue_.add_refused(), error);
  // Not the first of a connection, which may be its last: idle ones hold little.
  const bool again = std::exchange(served_, true);
  discarded_ = 0;
  H1Exchange& x = queue_.add();
  read_for_ = nullptr;
  if (known == Known::kYes) {
    x.start_again(connection_.peer);
    head.content_length = x.request().content_length;
  } else {
    x.start(head, std::move(head_text_->fields), connection_.peer);
    const bool plain = head_text_->for_parser.empty() && head.keep_alive && !head.expect_continue;
    if (again && plain && bytes.size() <= H1Exchange::kKnownHead) x.remember(bytes);
  }
  x.name_client(connection_.env.proxies);
  current_ = &x;
  if (!connection_.heads.take(bytes.size())) return fail(x, {503, reason::kOverload, kNoMemoryForHead});
  x.charged_ = bytes.size();
  if (!frame_body(parser_, *head_text_, head)) return fail(x, {400, reason::kParse, "malformed request"});
  read_for_ = &x;
  if (!head.keep_alive) connection_.last = true;
  start_body(x, head);
}

void H1Reader::start_body(H1Exchange& x, const Head& head) {
  x.read_whole_ = parser_.done();
  if (x.read_whole_) x.await_100_ = false;
  x.begun_ = true;
  reading_ = Reading::kBody;
  body_floor_.stop();
  clear(body_);
  x.plan_ = connection_.env.intake.begin(x);
  if (connection_.closing) return;  // answered already, and the connection ends with that: nothing behind it is read
  if (x.upgraded_ && x.open()) {
    reading_ = Reading::kRaw;
    connection_.moved = connection_.wire.now();
    return;
  }
  if (x.plan_.body != BodyPlan::kIgnore && x.open() && !x.headed_) {
    if (!collect_body(x, head)) return;
    if (x.await_100_ && x.turn_) x.write_continue();
  }
  if (parser_.done()) request_read();
}

// False: the request is refused.
bool H1Reader::collect_body(H1Exchange& x, const Head& head) {
  if (head.content_length > 0 && uint64_t(head.content_length) > x.plan_.limit) return fail(x, kBodyTooLarge), false;
  if (x.plan_.body != BodyPlan::kWhole) return true;
  auto coding = body_coding(x.request().fields.find("content-encoding"));
  if (!coding) {
    x.extra_fields().add("accept-encoding", "gzip, deflate");
    fail(x, {415, reason::kParse, kUnknownCodingText});
    return false;
  }
  const CodecEnv& env = connection_.env;
  if (!body_) body_ = std::make_unique<RequestBody>();
  body_->begin(connection_.wire, env.slabs,
               {head.content_length, *coding, InflateLimits{x.plan_.limit, env.limits.inflate_ratio},
                BodyOwner{env.bodies, x.request().peer->client.get()}});
  return true;
}

size_t H1Reader::step_body(std::string_view input) {
  H1Parser::Fate fate;
  size_t taken = parser_.body(std::as_bytes(std::span(input)), &fate);
  body_floor_.add(taken);
  if (taken > 0) connection_.moved = connection_.wire.now();
  if (fate == H1Parser::Fate::kBad && !body_error_)
    body_error_ = error_of({400, reason::kFramingChunk, "malformed chunked body"});
  if (body_error_) {
    fail_current(*std::exchange(body_error_, nullptr));
    return input.size();
  }
  if (discarded_ > kDiscardable) {
    close_after_queue();
    return input.size();
  }
  if (fate == H1Parser::Fate::kDone) request_read();
  return taken;
}

// Input behind an upgrade is passed on only as fast as it is consumed.
size_t H1Reader::step_raw(std::string_view input) {
  H1Exchange* x = current_;
  connection_.moved = connection_.wire.now();
  if (!x || !x->open() || !x->listener()) {
    discarded_ += input.size();
    return input.size();
  }
  x->record().bytes_in += input.size();
  x->usage_.note(*x);
  x->unconsumed_ += input.size();
  notify_data(*x, std::as_bytes(std::span(input)));
  return input.size();
}

void H1Reader::on_body(std::span<const std::byte> piece) {
  H1Exchange* x = current_;
  const bool wanted = x && x->open() &&
                      (x->plan_.body == BodyPlan::kStream ? x->listener() != nullptr
                                                          : !x->headed_ && x->plan_.body == BodyPlan::kWhole);
  if (x) x->record().bytes_in += piece.size(), x->usage_.note(*x);
  if (!wanted) {
    discarded_ += piece.size();
  } else if (x->plan_.body == BodyPlan::kWhole) {
    auto state = body_->put(piece);
    if (state != RequestBody::State::kOpen && state != RequestBody::State::kStalled) body_settled(state);
  } else if ((x->received_ += piece.size()) > x->plan_.limit) {
    body_error_ = error_of(kBodyTooLarge);
  } else {
    x->unconsumed_ += piece.size();
    if (auto* starts = connection_.env.starts) starts->received(*x, piece);
    notify_data(*x, piece);
  }
}

void H1Reader::retry_body() {
  // Others need the body's memory, or it has waited for some in vain.
  if (!body_) return;
  if (auto why = body_->take_loss(); why && current_)
    fail_current(*why == BodyMemory::Loss::kSilent ? HeadError{408, reason::kSlowBody, kMemoryGivenAway}
                                                   : HeadError{503, reason::kOverload, kNoMemoryInTime});
  if (!current_ || !stalled(body_)) return;
  if (current_->headed_) return forget(*current_);  // answered before its body had a place
  auto state = body_->retry();
  if (state != RequestBody::State::kStalled) body_settled(state);
  if (body_error_) fail_current(*std::exchange(body_error_, nullptr));
}

// The request that was being read is complete.
void H1Reader::request_read() {
  if (connection_.closing) return;  // broken off while its last bytes were handed on: nothing is taken behind it
  reading_ = Reading::kHead;
  read_for_ = nullptr;
  H1Exchange* x = std::exchange(current_, nullptr);
  if (!x) return;
  x->read_whole_ = true;
  x->await_100_ = false;
  if (!x->open()) return;
  if (x->plan_.body == BodyPlan::kStream) {
    notify_end(*x);
  } else if (x->plan_.body == BodyPlan::kWhole && !x->headed_) {
    current_ = x;
    body_settled(body_->end());
    if (body_error_) fail_current(*std::exchange(body_error_, nullptr));
  }
}

void H1Reader::forget(const H1Exchange& x) {
  if (current_ != &x) return;
  current_ = nullptr;
  clear(body_);
  if (reading_ == Reading::kSlab) reading_ = Reading::kHead;  // the body is in already
}

// Leaves body_error_ behind where something is wrong with the body.
void H1Reader::body_settled(RequestBody::State state) {
  switch (state) {
    case RequestBody::State::kOpen: return;
    case RequestBody::State::kStalled: reading_ = Reading::kSlab; return;
    case RequestBody::State::kCorrupt: body_error_ = error_of({400, reason::kParse, kCorruptText}); return;
    case RequestBody::State::kNoMemory: body_error_ = error_of({503, reason::kOverload, kNoMemoryForBody}); return;
    case RequestBody::State::kTooBig: {
      bool coded = !current_->request().fields.find("content-encoding").empty();
      body_error_ = error_of({413, coded ? reason::kInflateBytes : reason::kBodyBytes, {}});
      return;
    }
    case RequestBody::State::kOverRatio: body_error_ = error_of({413, reason::kInflateBytes, kOverRatioText}); return;
    case RequestBody::State::kDone: break;
  }
  H1Exchange& x = *std::exchange(current_, nullptr);
  reading_ = Reading::kHead;
  x.content_ = body_->take();
  connection_.env.intake.whole(x);
}

void H1Reader::fail(H1Exchange& x, const HeadError& error) {
  if (x.begun_)
    x.record().reject = error.reason;
  else
    connection_.env.intake.rejected(error.reason, connection_.peer);
  connection_.last = true;
  reading_ = Reading::kNothing;
  current_ = nullptr;
  clear(body_);
  x.close_ = true;
  if (x.headed_) return x.reset(Reset::kInternal);
  const std::string text = error.text.empty() ? x.plan_.too_large() : std::string(error.text);
  x.begun_ ? connection_.env.intake.refuse(x, error.status, text) : respond_error(x, error.status, text);
}

void H1Reader::fail_current(const HeadError& error) {
  H1Exchange* x = std::exchange(current_, nullptr);
  if (x && x->open()) return fail(*x, error);
  close_after_queue();
}

void H1Reader::close_after_queue() {
  if (queue_.all_ended()) return close_now();
  connection_.last = true;
  reading_ = Reading::kNothing;
  current_ = nullptr;
  queue_.back().close_ = true;
}

void H1Reader::close_now() {
  connection_.closing = connection_.last = true;
  reading_ = Reading::kNothing;
  current_ = nullptr;
  clear(body_);
}

bool H1Reader::held_back() const {
  const Limits& limits = connection_.env.limits;
  switch (reading_) {
    case Reading::kHead: return queue_.full() || connection_.output.size() > Exchange::kHighWater;
    case Reading::kBody:
      if (!current_) return false;
      if (current_->plan_.body == BodyPlan::kStream) return current_->unconsumed_ >= limits.stream_window;
      return stalled(body_);
    case Reading::kSlab: return true;
    case Reading::kRaw: return current_ && current_->unconsumed_ >= limits.stream_window;
    case Reading::kNothing: return discarded_ > kDiscardAtEnd;
  }
  return false;
}

void H1Reader::check(base::Time now) {
  const Limits& limits = connection_.env.limits;
  switch (reading_) {
    case Reading::kHead: {
      if (head_since_ != base::kNever && held_back()) head_since_ = now;
      if (head_since_ != base::kNever && now - head_since_ > limits.head)
        return fail(queue_.add_refused(), {408, reason::kSlowHeader, "the request head took too long"});
      base::Duration most = served_ ? limits.idle : limits.head;
      if (connection_.overloaded(base::Overload::kClose)) most = std::min(most, kH1ShortIdle);
      const bool idle = queue_.empty() && waiting() == 0 && connection_.output.empty();
      if (idle && now - connection_.idle_since > most) close_now();
      return;
    }
    case Reading::kRaw:
      body_floor_.stop();
      if (now - connection_.moved > limits.stream_idle) fail_current(kNothingCame);
      return;
    case Reading::kBody: return check_body(now);
    case Reading::kSlab:
    case Reading::kNothing: return;
  }
}

void H1Reader::check_body(base::Time now) {
  const Limits& limits = connection_.env.limits;
  // A request that is being answered while it comes is a conversation, in which either side may be silent for long.
  const bool conversation = current_ && current_->headed_ && current_->plan_.body == BodyPlan::kStream;
  const bool unasked = current_ && current_->await_100_ && !current_->turn_;  // its 100 waits for its turn
  if (held_back() || conversation || unasked) {
    body_floor_.stop();
    if (conversation && !held_back() && now - connection_.moved > limits.stream_idle) fail_current(kNothingCame);
    return;
  }
  uint32_t rate = floor_rate(limits.min_body_rate, body_ ? body_->reserved() : 0, connection_.env.slabs);
  body_floor_.start(now);
  if (body_floor_.below(now, rate, limits.grace))
    fail_current({408, reason::kSlowBody, "the request body comes too slowly"});
}

}  // namespace weir::wire
