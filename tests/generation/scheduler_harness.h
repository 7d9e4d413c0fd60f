// A TokenScheduler stepped by hand, with Calls and a record of what each has said.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../sched/calls.h"
#include "fake_engine.h"
#include "generation/scheduler.h"

namespace weir::generation {

using namespace std::chrono_literals;
using sched::Answers;

class SchedulerHarness {
 public:
  explicit SchedulerHarness(TokenPolicy policy = {}, uint32_t blocks = 64, uint32_t max_length = 4096)
      : spec(token_spec(max_length)), room{blocks, policy.block_size}, engine(spec) {
    stats.tokens = std::make_unique<bus::TokenStats>();
    (void)engine.reserve(blocks, policy.block_size);
    scheduler = std::make_unique<TokenScheduler>(engine, room, policy, spec, stats, 42);
  }
  ~SchedulerHarness() {
    scheduler->fail_all(base::failure(base::Code::kUnavailable, "over"), now);
    collect();
  }

  // A Call with these tokens, greedy, to be filled further and then sent. It is alive as long as the harness.
  msg::Call& call(std::vector<uint32_t> tokens, uint32_t max_tokens = 8) {
    auto& c = calls_.emplace_back();
    c.home = &answers;
    c.generation = std::make_unique<msg::Generation>();
    c.generation->append = std::move(tokens);
    c.generation->max_tokens = max_tokens;
    c.generation->sampling.temperature = 0;
    c.generation->ignore_eos = true;
    return c;
  }
  // False when it does not fit.
  bool send(msg::Call& c) {
    c.times.queued = now;
    auto status = fits_tokens(c, spec, room);
    if (!status.ok()) {
      said[&c].push_back(told(msg::Event{msg::Failed{std::move(status)}}));
      if (c.session) scheduler->cut(c.session, uint32_t(c.generation->history.size()));
      return false;
    }
    scheduler->add(&c, now);
    collect();
    return true;
  }
  // Encodes the images that sequences wait for; false when there were none.
  bool encode_images() {
    bool encoded = false;
    while (auto pending = scheduler->next_image()) {
      scheduler->on_image_encoded(pending->id, engine.encode_image(pending->image), now);
      encoded = true;
    }
    collect();
    return encoded;
  }
  enum class Images : uint8_t { kEncoded, kByHand } images = Images::kEncoded;
  // One step; false when nothing ran.
  bool step() {
    if (images == Images::kEncoded) encode_images();
    auto* step = scheduler->plan(now);
    if (!step && images == Images::kEncoded && encode_images()) step = scheduler->plan(now);
    collect();
    if (!step) return false;
    auto status = engine.step(*step);
    for (;;) {
      now += ticks(*step);
      auto* next = ahead && status.ok() ? scheduler->plan_ahead(now) : nullptr;
      auto follows = next ? engine.step(*next) : base::Status();
      steps_ahead += next != nullptr;
      scheduler->finish(status, now);
      collect();
      if (!next) return true;
      if (meanwhile) meanwhile();
      status = std::move(follows);
    }
  }
  void run() {
    for (int i = 0; i < 100'000 && step(); ++i) {
    }
  }
  std::vector<std::string> expected(const msg::Call& c) const {
    return Reference(*c.generation, *spec.text, room.positions(*spec.text), c.adapter).says();
  }
  void collect() {
    for (auto& mail : scheduler->mail()) {
      last[mail.call] = mail.event.last();
      said[mail.call].push_back(told(mail.event));
      if (auto* done = std::get_if<msg::Done>(&mail.event.what)) dones[mail.call] = *done;
    }
    scheduler->mail().clear();
  }
  uint32_t used() const { return scheduler->memory().blocks().used(); }
  // For a greedy Call without history: all of its tokens at its end.
  std::vector<uint32_t> sequence(const msg::Call& c) const {
    Reference reference(*c.generation, *spec.text, room.positions(*spec.text), c.adapter);
    reference.says();
    return reference.tokens();
  }

  msg::ModelSpec spec;
  TokenRoom room;
  FakeTokenEngine engine;
  bus::ModelStats stats;
  base::Time now = base::Time(1s);
  bool ahead = false;  // each step is laid out before the one before is finished, where that can be
  uint64_t steps_ahead = 0;
  std::function<void()> meanwhile;  // between two such steps
  std::function<base::Duration(const TokenStep&)> ticks = [](const TokenStep&) { return 1ms; };  // how long one takes
  std::unique_ptr<TokenScheduler> scheduler;
  std::map<const msg::Call*, std::vector<std::string>> said;
  std::map<const msg::Call*, bool> last;
  std::map<const msg::Call*, msg::Done> dones;

 private:
  Answers answers;
  std::deque<msg::Call> calls_;
};

inline TokenPolicy small(uint32_t block = 4, uint32_t step_tokens = 16) {
  TokenPolicy policy;
  policy.block_size = block, policy.step_tokens = step_tokens, policy.max_running = 8;
  return policy;
}

inline std::vector<uint32_t> numbers(uint32_t n, uint32_t first = 5) {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < n; ++i) out.push_back((first + i * 7) % FakeModel::kVocabulary);
  return out;
}

}  // namespace weir::generation
