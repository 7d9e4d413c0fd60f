// Measures what the token scheduler costs beside the engine: an engine that does nothing, sequences that only decode.
//
//   token_bench [steps]
//
// "scheduler": CPU of plan() and finish() of one step, by sequences in it and the length of their contexts. "lane":
// events through lane and mailbox to one shard (this thread), and CPU of the whole process per event. "session": an
// append of ten tokens to a session that has so many.
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>

#include "bus/mailbox.h"
#include "generation/lane.h"
#include "generation/scheduler.h"
#include "mock_tokens.h"

namespace {

using namespace weir;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }
// CPU time of this thread: other processes do not count.
double thread_seconds() {
  timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}
double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  auto of = [](timeval t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

msg::ModelSpec spec_of(uint32_t max_length) {
  auto text = std::make_shared<msg::TextSpec>();
  text->max_length = max_length, text->vocabulary = 1000, text->hidden_size = 1;
  msg::ModelSpec spec;
  spec.name = "mock";
  spec.text = std::move(text);
  return spec;
}

// Takes what is said and keeps nothing.
struct Sinkhole final : msg::Home {
  void post(std::vector<msg::Mail>& burst) override { burst.clear(); }
  void post_here(msg::Mail&&) override {}
};

struct SchedulerBench {
  SchedulerBench(uint32_t max_length, uint32_t blocks, uint32_t running)
      : spec(spec_of(max_length)), engine(*spec.text), room{blocks, 16} {
    policy.max_running = running, policy.step_tokens = 1 << 20, policy.block_size = 16;
    stats.tokens = std::make_unique<bus::TokenStats>();
    scheduler = std::make_unique<generation::TokenScheduler>(engine, room, policy, spec, stats, 1);
  }
  msg::Call& call(uint32_t length, uint32_t max_tokens) {
    auto& c = calls.emplace_back();
    c.home = &home;
    c.times.queued = Clock::now();
    c.generation = std::make_unique<msg::Generation>();
    for (uint32_t i = 0; i < length; ++i) c.generation->append.push_back(uint32_t(calls.size() * 31 + i) % 1000);
    c.generation->max_tokens = max_tokens;
    return c;
  }
  bool step() {
    auto* step = scheduler->plan(Clock::now());
    scheduler->mail().clear();
    if (!step) return false;
    scheduler->finish(engine.step(*step), Clock::now());
    scheduler->mail().clear();
    return true;
  }
  msg::ModelSpec spec;
  bench::MockTokens engine;
  generation::TokenRoom room;
  generation::TokenPolicy policy;
  bus::ModelStats stats;
  Sinkhole home;
  std::deque<msg::Call> calls;
  std::unique_ptr<generation::TokenScheduler> scheduler;
};

void scheduler_case(uint32_t sequences, uint32_t context, int steps) {
  SchedulerBench bench(context + uint32_t(steps) + 100,
                       (context + uint32_t(steps) + 100) / 16 * sequences + sequences * 2, sequences);
  for (uint32_t i = 0; i < sequences; ++i) bench.scheduler->add(&bench.call(context, 1 << 30), Clock::now());
  for (int i = 0; i < 20; ++i) bench.step();
  double begin = thread_seconds();
  for (int i = 0; i < steps; ++i) bench.step();
  std::printf("scheduler  %4u sequences of %6u tokens: %7.2f us a step\n", sequences, context,
              (thread_seconds() - begin) / steps * 1e6);
  bench.scheduler->fail_all(base::failure(base::Code::kCancelled, ""), Clock::now());
}

void session_case(uint32_t length) {
  SchedulerBench bench(length + 1000, length / 16 + 200, 8);
  std::vector<uint32_t> history;
  auto turn = [&](uint32_t append) {
    auto& c = bench.call(append, 0);
    c.session = {1, 1};
    c.generation->history = history;
    double begin = thread_seconds();
    bench.scheduler->add(&c, Clock::now());
    while (bench.step()) {
    }
    double took = thread_seconds() - begin;
    history.insert(history.end(), c.generation->append.begin(), c.generation->append.end());
    return took;
  };
  turn(length);
  constexpr int kTurns = 50;
  double all = 0;
  for (int i = 0; i < kTurns; ++i) all += turn(10);
  std::printf("session    %6u tokens, 10 appended: %7.2f us\n", length, all / kTurns * 1e6);
}

void lane_case(uint32_t sequences, uint32_t tokens) {
  auto spec = spec_of(tokens + 100);
  bus::ModelStats stats;
  generation::TokenPolicy policy;
  policy.max_running = sequences, policy.step_tokens = sequences * 2, policy.kv_bytes = size_t(1) << 26;
  std::atomic<int> woken{0};
  bus::Mailbox mailbox([&] { woken.store(1), woken.notify_one(); });
  auto lane = generation::make_token_lane(std::make_unique<bench::MockTokens>(*spec.text), policy, spec, stats);
  std::deque<msg::Call> calls;
  double cpu = cpu_seconds();
  auto begin = Clock::now();
  for (uint32_t i = 0; i < sequences; ++i) {
    auto& c = calls.emplace_back();
    c.home = &mailbox;
    c.generation = std::make_unique<msg::Generation>();
    c.generation->append = {i, 2, 3};
    c.generation->max_tokens = tokens;
    lane->put(&c);
  }
  std::vector<msg::Mail> mail;
  uint64_t events = 0;
  for (uint32_t over = 0; over < sequences;) {
    woken.wait(0), woken.store(0);
    while (mailbox.drain(mail))
      for (auto& m : mail) ++events, over += m.event.last();
  }
  double took = seconds_since(begin);
  cpu = cpu_seconds() - cpu;
  std::printf("lane       %4u sequences: %9.0f events/s, %6.1f ns of CPU an event\n", sequences, double(events) / took,
              cpu / double(events) * 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  int steps = argc > 1 ? std::atoi(argv[1]) : 500;
  for (uint32_t sequences : {1u, 8u, 64u, 256u}) scheduler_case(sequences, 500, steps);
  scheduler_case(256, 4000, steps);
  for (uint32_t length : {1000u, 20'000u, 200'000u}) session_case(length);
  for (uint32_t sequences : {1u, 64u, 256u}) lane_case(sequences, uint32_t(steps) * 10);
}
