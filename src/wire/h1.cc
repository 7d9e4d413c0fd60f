// HTTP/1.0 and 1.1 (RFC 9112), the reading half: heads through the gate, bodies to where the plan wants them, the queue
// of pipelined requests, time limits and drain.
//
// Nothing here recurses: a service that answers inside begin() or whole() only appends output; the next request is
// parsed by the loop in process(). A client that shuts down its sending side is taken to have left: answers that are
// complete still go out, calls that are running are cancelled (as nginx does), for a computation is dear.
#include "wire/h1.h"

#include <algorithm>
#include <utility>

#include "wire/router.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr uint64_t kDiscardable = 256 << 10;  // of a body that nobody wants, to keep the connection
constexpr uint64_t kDiscardAtEnd = 1 << 20;   // of whatever comes after the last request
constexpr size_t kSpare = 4;                  // exchanges kept for reuse
constexpr size_t kKeptInput = 16 << 10;       // capacity of input_ that a quiet connection may keep
constexpr uint32_t kBlankLines = 1;           // before a request line, RFC 9112 §2.2

std::string_view view(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

bool RateWatch::too_slow(base::Time now, uint32_t rate, base::Duration period) {
  if (since_ == base::kNever) since_ = now, bytes_ = 0;
  base::Duration passed = now - since_;
  if (passed < period) return false;
  bool slow = bytes_ < uint64_t(rate) * uint64_t(std::chrono::duration_cast<std::chrono::seconds>(passed).count());
  since_ = now, bytes_ = 0;
  return slow;
}

H1::H1(const CodecEnv& env, Wire& wire, const PeerInfo& peer)
    : env_(env), wire_(wire), peer_(peer), parser_(*this), idle_since_(wire.now()) {}
H1::~H1() = default;

void H1::feed(std::span<const std::byte> bytes) {
  busy_ = true;
  process(bytes);
  busy_ = false;
}

// What cannot be used yet stays in input_: a head without its end, a chunk's header, requests beyond the pipeline.
void H1::process(std::span<const std::byte> fresh) {
  const bool appended = !input_.empty();
  if (appended) input_.append(view(fresh));
  std::string_view input = appended ? std::string_view(input_) : view(fresh);
  size_t used = 0;
  while (used < input.size()) {
    size_t n = step(input.substr(used));
    if (n == 0) break;
    used += n;
  }
  if (appended)
    input_.erase(0, used);
  else
    input_.assign(input.substr(used));
  if (input_.empty() && input_.capacity() > kKeptInput) input_ = std::string();
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
    case Reading::kNothing: break;
  }
  discarded_ += input.size();
  return input.size();
}

size_t H1::step_head(std::string_view input) {
  if (head_since_ == base::kNever) head_since_ = wire_.now();
  Refusal refusal;
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
  if (Refusal refusal = inspect_head(bytes, env_.limits, &head)) return refuse(refusal);
  served_ = true;
  discarded_ = 0;
  H1Exchange& x = enqueue();
  x.start(head, peer_);
  current_ = &x;
  // The gate and the parser must have read the same; if ever not, the request is the kind that the gate is for.
  bool same = parser_.head(bytes) && parser_.chunked() == head.chunked &&
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
  x.plan_ = env_.intake.begin(x);
  reading_ = Reading::kBody;
  body_watch_.stop();
  collector_.clear();
  if (x.plan_.body != BodyPlan::kIgnore && x.open() && !x.headed_) {
    if (head.content_length > 0 && uint64_t(head.content_length) > x.plan_.limit)
      return fail(x, {413, reason::kBodyBytes, "the request body is larger than the limit"});
    if (x.plan_.body == BodyPlan::kWhole) {
      auto coding = body_coding(x.request().fields.find("content-encoding"));
      if (!coding) {
        x.standing().add("accept-encoding", "gzip, deflate");
        return fail(x, {415, reason::kParse, "unknown Content-Encoding; gzip and deflate are supported"});
      }
      collector_.begin(env_.slabs,
                       {head.content_length, *coding, InflateLimits{x.plan_.limit, env_.limits.inflate_ratio}});
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

void H1::on_field(std::string_view name, std::string_view value) {
  scratch_.assign(name);
  for (char& c : scratch_) c = lower(c);
  current_->request_.fields.add(scratch_, value);
}

void H1::on_body(std::span<const std::byte> piece) {
  H1Exchange* x = current_;
  const bool wanted =
      x && x->open() &&
      (x->plan_.body == BodyPlan::kStream ? x->reader() != nullptr : !x->headed_ && x->plan_.body == BodyPlan::kWhole);
  if (x) x->ledger().bytes_in += piece.size();
  if (!wanted) {
    discarded_ += piece.size();
  } else if (x->plan_.body == BodyPlan::kWhole) {
    auto state = collector_.put(piece);
    if (state == BodyCollector::State::kTooBig || state == BodyCollector::State::kCorrupt) body_settled(state);
  } else if ((x->received_ += piece.size()) > x->plan_.limit) {
    body_refusal_ = {413, reason::kBodyBytes, "the request body is larger than the limit"};
  } else {
    x->unconsumed_ += piece.size();
    x->reader()->on_data(*x, piece);
  }
}

// The request that was being read is complete.
void H1::request_read() {
  reading_ = Reading::kHead;
  H1Exchange* x = std::exchange(current_, nullptr);
  if (!x) return;
  x->read_whole_ = true;
  x->await_100_ = false;
  if (!x->open()) return;
  if (x->plan_.body == BodyPlan::kStream) {
    if (x->reader()) x->reader()->on_end(*x);
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
    case BodyCollector::State::kStalled: reading_ = Reading::kSlab; return;
    case BodyCollector::State::kCorrupt:
      body_refusal_ = {400, reason::kParse, "the request body is not in its Content-Encoding"};
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
  env_.intake.whole(x);
}

H1Exchange& H1::enqueue() {
  if (spare_.empty()) {
    queue_.push_back(std::make_unique<H1Exchange>(*this));
  } else {
    queue_.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  H1Exchange& x = *queue_.back();
  if (queue_.size() - 1 == ended_) x.take_turn();
  return x;
}

// A request that never became one: answered in its place in the queue, and the connection's last.
void H1::refuse(const Refusal& refusal) {
  H1Exchange& x = enqueue();
  x.read_whole_ = true;
  fail(x, refusal);
}

void H1::fail(H1Exchange& x, const Refusal& refusal) {
  if (x.begun_)
    x.ledger().reject = refusal.reason;
  else
    env_.intake.rejected(refusal.reason, peer_);
  stop_reading();
  reading_ = Reading::kNothing;
  current_ = nullptr;
  collector_.clear();
  x.close_ = true;
  if (x.headed_)
    x.reset(Reset::kInternal);
  else
    respond_error(x, refusal.status, refusal.text);
}

void H1::fail_current(const Refusal& refusal) {
  H1Exchange* x = std::exchange(current_, nullptr);
  if (x && x->open()) return fail(*x, refusal);
  close_after_queue();
}

// No more is read; the connection ends with the last answer that is due.
void H1::close_after_queue() {
  stop_reading();
  reading_ = Reading::kNothing;
  current_ = nullptr;
  if (ended_ == queue_.size())
    closing_ = true;
  else
    queue_.back()->close_ = true;
}

void H1::pass_turn() {
  while (ended_ < queue_.size()) {
    H1Exchange& x = *queue_[ended_];
    if (!x.turn_) x.take_turn();
    if (!x.ended_) return;
    ++ended_;
    if (!x.close_) continue;
    closing_ = true;
    reading_ = Reading::kNothing;
    current_ = nullptr;
    return;
  }
}

void H1::close(std::unique_ptr<H1Exchange> x, bool complete) {
  x->gone_ = true;
  if (current_ == x.get()) current_ = nullptr;
  if (x->begun_) {
    if (!complete && x->ledger().code == base::Code::kOk) x->ledger().code = base::Code::kCancelled;
    if (Reader* reader = x->reader()) reader->on_close(*x, complete);
    env_.intake.closed(*x);
  }
  x->clear();
  if (spare_.size() < kSpare) spare_.push_back(std::move(x));
  if (queue_.empty()) idle_since_ = wire_.now();
}

// queue_[first, …) are over and will not be answered.
void H1::close_from(size_t first) {
  std::vector<std::unique_ptr<H1Exchange>> over;
  for (size_t i = first; i < queue_.size(); ++i) {
    queue_[i]->gone_ = true;
    over.push_back(std::move(queue_[i]));
  }
  queue_.resize(first);
  ended_ = std::min(ended_, first);
  current_ = nullptr;
  for (auto& x : over) close(std::move(x), false);
}

void H1::eof() {
  busy_ = true;
  closing_ = true;
  reading_ = Reading::kNothing;
  input_.clear();
  close_from(ended_);
  busy_ = false;
  announce();
}

void H1::closed() {
  busy_ = true;
  closing_ = true;
  reading_ = Reading::kNothing;
  close_from(0);
  output_.clear();
  input_.clear();
  collector_.clear();
  busy_ = false;
}

void H1::consumed(size_t n) {
  busy_ = true;
  uint64_t before = output_.total();
  output_.consume(n);
  output_watch_.count(n);
  if (output_.empty()) output_watch_.stop();
  while (ended_ > 0 && queue_.front()->to_ <= output_.sent()) {
    std::unique_ptr<H1Exchange> x = std::move(queue_.front());
    queue_.erase(queue_.begin());
    --ended_;
    bool complete = !x->cut_;
    close(std::move(x), complete);
  }
  if (ended_ < queue_.size()) {
    H1Exchange& x = *queue_[ended_];
    if (x.above_ && x.backlog() < Exchange::kLowWater) {
      x.above_ = false;
      if (x.reader()) x.reader()->on_drain(x);
    }
  }
  if (!input_.empty()) process({});
  busy_ = false;
  note_output(before);
}

void H1::note_output(uint64_t before) {
  if (output_.total() != before || (closing_ && output_.empty())) wire_.output_ready();
}

void H1::announce() {
  if (!busy_) wire_.output_ready();
}

bool H1::held_back() const {
  switch (reading_) {
    case Reading::kHead: return queue_.size() >= env_.limits.pipelined || output_.size() > Exchange::kHighWater;
    case Reading::kBody:
      if (!current_) return false;
      if (current_->plan_.body == BodyPlan::kStream) return current_->unconsumed_ >= env_.limits.stream_window;
      return collector_.state() == BodyCollector::State::kStalled;
    case Reading::kSlab: return true;
    case Reading::kNothing: return discarded_ > kDiscardAtEnd;
  }
  return false;
}

bool H1::wants_read() const { return !held_back(); }

bool H1::idle() const {
  return queue_.empty() && input_.empty() && output_.empty() &&
         (reading_ == Reading::kHead || reading_ == Reading::kNothing);
}

void H1::tick(base::Time now) {
  busy_ = true;
  uint64_t before = output_.total();
  if (current_ && collector_.state() == BodyCollector::State::kStalled) {
    auto state = collector_.retry();
    if (state != BodyCollector::State::kStalled) body_settled(state);
    if (body_refusal_) fail_current(std::exchange(body_refusal_, {}));
  }
  if (!input_.empty()) process({});
  check_output(now);
  if (!closing_) check_body(now);
  if (queue_.empty() && input_.empty() && output_.empty() && now - idle_since_ > std::chrono::seconds(2)) {
    output_.trim();
    spare_.clear();
    scratch_ = std::string();
    input_ = std::string();
  }
  busy_ = false;
  note_output(before);
}

// A peer that does not take its answers is cut off, whatever it was sent.
void H1::check_output(base::Time now) {
  if (output_.empty()) return output_watch_.stop();
  if (!output_watch_.too_slow(now, env_.limits.min_drain_rate, env_.limits.grace)) return;
  if (!queue_.empty()) queue_.front()->ledger().reject = reason::kSlowRead;
  output_.clear();
  reading_ = Reading::kNothing;
  current_ = nullptr;
  closing_ = true;
}

void H1::check_body(base::Time now) {
  const Limits& limits = env_.limits;
  if (reading_ == Reading::kHead) {
    if (head_since_ != base::kNever && now - head_since_ > limits.head)
      return refuse({408, reason::kSlowHeader, "the request head took too long"});
    if (idle() && now - idle_since_ > (served_ ? limits.idle : limits.head)) closing_ = true;
  } else if (reading_ == Reading::kBody) {
    // A request that is being answered while it comes is a conversation, in which either side may be silent for long.
    bool conversation = current_ && current_->headed_ && current_->plan_.body == BodyPlan::kStream;
    if (held_back() || conversation) {
      body_watch_.stop();
      if (!held_back() && now - moved_ > limits.stream_idle)
        fail_current({408, reason::kIdle, "nothing has come for too long"});
    } else if (body_watch_.too_slow(now, limits.min_body_rate, limits.grace)) {
      fail_current({408, reason::kSlowBody, "the request body comes too slowly"});
    }
  }
}

void H1::drain(Drain step) {
  draining_ = true;
  if (step == Drain::kAnnounce) return;
  // A head that has begun to come is still answered.
  if (reading_ == Reading::kHead && input_.empty()) close_after_queue();
  announce();
}

std::unique_ptr<Codec> make_h1(const CodecEnv& env, Wire& wire, const PeerInfo& peer) {
  return std::make_unique<H1>(env, wire, peer);
}

}  // namespace weir::wire
