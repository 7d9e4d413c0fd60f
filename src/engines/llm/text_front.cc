#include "engines/llm/text_front.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engines/llm/text_request.h"
#include "sched/workers.h"
#include "text/processor.h"
#include "text/stream.h"

namespace weir::llm {
namespace {

constexpr size_t kBytesPerPosition = 256;          // a longer prompt than that cannot fit; it is not even tokenized
constexpr size_t kWaitingMost = size_t(64) << 20;  // bytes of long prompts that wait to be tokenized

base::Bytes string_tensor(std::string_view text) {
  std::string data;
  msg::append_string(data, text);
  return base::Bytes::adopt(std::move(data));
}

class TextFront final : public msg::Inbox, private msg::Home {
 public:
  TextFront(std::unique_ptr<msg::Inbox> lane, const msg::ModelSpec& spec, bus::ModelStats& stats)
      : spec_(spec), stats_(stats), lane_(std::move(lane)) {}
  ~TextFront() override {
    scribe_.reset();
    lane_.reset();  // fails what is running, which comes back here
    base::check(open_.empty(), "a front outlives its Calls");
  }

  void put(msg::Call* call) override;
  void poke() override;

 private:
  // One Call on its way. `parent` is null once it has been answered.
  struct Flight : msg::Call {
    msg::Call* parent = nullptr;  // under mutex_
    size_t index = 0;             // in open_; under mutex_
    text::Detokenizer decode;
    text::StopStrings stops;
    bool stream = false;
    std::string prompt;       // until it is tokens
    std::string ready, text;  // ready: a piece that has not been sent
    uint32_t prompt_tokens = 0, completion_tokens = 0;

    Flight(const text::Tokenizer& tokenizer, TextRequest& request)
        : decode(tokenizer, text::SkipSpecial::kYes),
          stops(std::move(request.stops), text::StopStrings::Keep::kNo),
          stream(request.stream) {}
  };
  using Bursts = std::vector<std::pair<msg::Home*, std::vector<msg::Mail>>>;

  void post(std::vector<msg::Mail>& burst) override;
  void post_here(msg::Mail&& mail) override;

  base::Result<std::unique_ptr<Flight>> open(msg::Call& call);
  base::Status tokenize(Flight& flight) const;
  void begin(Flight& flight);
  void receive(msg::Mail& mail, Bursts& out);
  void hear(Flight& flight, const msg::Token& token, Bursts& out);
  void end(Flight& flight, const msg::Done& done, Bursts& out);
  void answer(Flight& flight, std::string_view reason, Bursts& out);
  void send(Flight& flight, msg::Event&& event, Bursts& out);
  void land(Flight& flight);
  void refuse(msg::Call* call, base::Status status);

  const msg::ModelSpec& spec_;
  bus::ModelStats& stats_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Flight>> open_;  // under mutex_
  sched::WaitingBytes waiting_{kWaitingMost};  // of prompts for the scribe; under mutex_
  std::unique_ptr<msg::Inbox> lane_;
  // Tokenizes what is long, so that shards need not.
  std::unique_ptr<sched::Workers> scribe_ = std::make_unique<sched::Workers>(1);
};

void TextFront::put(msg::Call* call) {
  if (call->generation) return lane_->put(call);
  auto flight = open(*call);
  if (!flight) return refuse(call, flight.error());
  Flight* lent = flight->get();
  size_t bytes = lent->prompt.size();
  bool is_long = bytes > bus::kShortText;
  if (auto bad = is_long ? base::Status() : tokenize(*lent); !bad.ok()) return refuse(call, std::move(bad));
  bool full;
  {
    std::lock_guard lock(mutex_);
    full = is_long && !waiting_.add(lent->tenant, bytes);
  }
  if (full)
    return refuse(call, base::try_again(base::Code::kResourceExhausted,
                                        "too many long texts are waiting to be tokenized; try again later"));
  {
    std::lock_guard lock(mutex_);
    lent->parent = call;
    lent->cancelled.store(call->cancelled.load(std::memory_order_acquire), std::memory_order_release);
    if (lent->stream) lent->credit.store(call->credit.load(std::memory_order_acquire), std::memory_order_release);
    lent->index = open_.size();
    open_.push_back(std::move(*flight));
  }
  if (!is_long) return lane_->put(lent);
  const sched::Workers::Share share{lent->tenant, bytes};
  scribe_->post(
      [this, lent, share] {
        begin(*lent);
        std::lock_guard lock(mutex_);
        waiting_.remove(share.client, share.cost);
      },
      share);
}

// A Call that was cancelled meanwhile is the lane's to drop: it counts those.
void TextFront::begin(Flight& flight) {
  base::Status bad;
  if (flight.cancelled.load(std::memory_order_acquire))
    flight.generation->append = {0};
  else
    bad = tokenize(flight);
  if (flight.cancelled.load(std::memory_order_acquire)) bad = {}, flight.generation->append = {0};
  if (bad.ok()) return lane_->put(&flight);
  stats_.add_failure(bad.code, 0);
  post_here({&flight, {msg::Failed{std::move(bad)}}});
}

base::Status TextFront::tokenize(Flight& flight) const {
  auto& ids = flight.generation->append;
  try {
    ids = spec_.text->processor->tokenizer->encode(flight.prompt, text::AddSpecial::kYes, &flight.cancelled);
  } catch (const std::bad_alloc&) {
    return base::try_again(base::Code::kResourceExhausted, "out of memory; try again later");
  }
  flight.prompt = {};
  return ids.empty() ? base::invalid("'text_input' is empty") : base::Status();
}

base::Result<std::unique_ptr<TextFront::Flight>> TextFront::open(msg::Call& call) {
  auto request = read_text_request(call, *spec_.text);
  if (!request) return request.error();
  if (request->prompt.size() > size_t(spec_.text->max_length) * kBytesPerPosition)
    return base::invalid("'text_input' is longer than the model's context of " +
                         std::to_string(spec_.text->max_length) + " tokens");
  auto flight = std::make_unique<Flight>(*spec_.text->processor->tokenizer, *request);
  flight->generation = std::make_unique<msg::Generation>(std::move(request->generation));
  if (request->with_prompt) flight->text = request->prompt;
  flight->prompt = std::move(request->prompt);
  flight->model = call.model, flight->version = call.version, flight->id = call.id;
  flight->tenant = call.tenant, flight->cache_scope = call.cache_scope, flight->priority = call.priority,
  flight->deadline = call.deadline, flight->queue_timeout = call.queue_timeout;
  flight->home = this;
  flight->times = call.times;
  return flight;
}

// Cancelled Calls and new credit are passed on. The lane is told in any case: the Call may be one that passed through.
void TextFront::poke() {
  {
    std::lock_guard lock(mutex_);
    for (auto& flight : open_) {
      if (!flight->parent) continue;
      if (flight->parent->cancelled.load(std::memory_order_acquire))
        flight->cancelled.store(true, std::memory_order_release);
      if (flight->stream)
        flight->credit.store(flight->parent->credit.load(std::memory_order_acquire), std::memory_order_release);
    }
  }
  lane_->poke();
}

void TextFront::post(std::vector<msg::Mail>& burst) {
  Bursts out;
  for (auto& mail : burst) receive(mail, out);
  burst.clear();
  for (auto& [home, mails] : out) home->post(mails);
}

void TextFront::post_here(msg::Mail&& mail) {
  Bursts out;
  receive(mail, out);
  for (auto& [home, mails] : out) home->post(mails);
}

void TextFront::receive(msg::Mail& mail, Bursts& out) {
  auto& flight = static_cast<Flight&>(*mail.call);
  bool last = mail.event.last();
  if (flight.parent) {
    if (auto* token = std::get_if<msg::Token>(&mail.event.what))
      hear(flight, *token, out);
    else if (auto* done = std::get_if<msg::Done>(&mail.event.what))
      end(flight, *done, out);
    else
      send(flight, std::move(mail.event), out);
  }
  if (last) land(flight);
}

void TextFront::hear(Flight& flight, const msg::Token& token, Bursts& out) {
  if (token.prefill) return;
  ++flight.completion_tokens;
  flight.prompt_tokens = uint32_t(flight.generation->length());
  std::string piece;
  flight.decode.push(token.id, piece);
  std::string& to = flight.stream ? flight.ready : flight.text;
  if (flight.stops.push(piece, to)) {
    flight.satisfied.store(true, std::memory_order_relaxed);
    flight.cancelled.store(true, std::memory_order_release);  // the lane looks before its next step
    return answer(flight, "stop", out);
  }
  if (flight.stream && !to.empty()) {
    msg::Outputs outputs;
    outputs.final = false;
    outputs.tensors.push_back({"text_output", msg::DType::kBytes, {1}, string_tensor(std::exchange(to, {}))});
    send(flight, {std::move(outputs)}, out);
  } else if (flight.stream) {
    std::lock_guard lock(mutex_);
    flight.credit.store(flight.parent->credit.load(std::memory_order_acquire), std::memory_order_release);
  }
}

void TextFront::end(Flight& flight, const msg::Done& done, Bursts& out) {
  std::string piece;
  std::string& to = flight.stream ? flight.ready : flight.text;
  flight.decode.finish(piece);
  bool stopped = flight.stops.push(piece, to);
  if (!stopped) flight.stops.finish(to);
  flight.prompt_tokens = done.prompt_tokens, flight.completion_tokens = done.completion_tokens;
  answer(flight, done.finish == msg::Finish::kLength && !stopped ? "length" : "stop", out);
}

void TextFront::answer(Flight& flight, std::string_view reason, Bursts& out) {
  msg::Outputs outputs;
  outputs.tensors.push_back(
      {"text_output", msg::DType::kBytes, {1}, string_tensor(flight.stream ? flight.ready : flight.text)});
  outputs.parameters.emplace_back("finish_reason", std::string(reason));
  outputs.parameters.emplace_back("prompt_tokens", int64_t(flight.prompt_tokens));
  outputs.parameters.emplace_back("completion_tokens", int64_t(flight.completion_tokens));
  send(flight, {std::move(outputs)}, out);
}

// To the Call's home, at the end of this burst. After a last Event the Call is its home's.
void TextFront::send(Flight& flight, msg::Event&& event, Bursts& out) {
  msg::Call* parent = flight.parent;
  auto at = std::find_if(out.begin(), out.end(), [&](const auto& burst) { return burst.first == parent->home; });
  if (at == out.end()) at = out.insert(at, {parent->home, {}});
  std::lock_guard lock(mutex_);
  int32_t credit = parent->credit.fetch_sub(1, std::memory_order_acq_rel) - 1;
  if (flight.stream) flight.credit.store(credit, std::memory_order_release);
  if (event.last()) {
    msg::Timeline times = flight.times;
    times.received = parent->times.received;
    parent->times = times;
    flight.parent = nullptr;
  }
  at->second.push_back({parent, std::move(event)});
}

void TextFront::land(Flight& flight) {
  std::lock_guard lock(mutex_);
  size_t index = flight.index;
  open_.back()->index = index;
  std::swap(open_[index], open_.back());
  open_.pop_back();
}

void TextFront::refuse(msg::Call* call, base::Status status) {
  stats_.add_failure(status.code, 0);
  std::vector<msg::Mail> one;
  one.push_back({call, {msg::Failed{std::move(status)}}});
  call->home->post(one);
}

}  // namespace

std::unique_ptr<msg::Inbox> make_text_front(std::unique_ptr<msg::Inbox> lane, const msg::ModelSpec& spec,
                                            bus::ModelStats& stats) {
  return std::make_unique<TextFront>(std::move(lane), spec, stats);
}

}  // namespace weir::llm
