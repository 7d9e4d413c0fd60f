// Which calls form which batch, case by case, after the rules of Triton's dynamic batcher (dynamic_batch_scheduler.cc:
// GetDynamicBatch; scheduler_utils.cc: PriorityQueue): first of the Batcher alone, then of lanes with engines.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <sstream>

#include "event_recorder.h"
#include "engines.h"
#include "line.h"
#include "sched/lane.h"
#include "sched/runner.h"

namespace weir::sched {
namespace {

using Action = msg::QueuePolicy::TimeoutAction;

struct Policy {
  uint32_t max_batch = 8;
  std::vector<uint32_t> preferred{};
  int delay_ms = 0;
  uint32_t levels = 0, level = 0;
  uint32_t max_queue = 0;
  int timeout_ms = 0;
  enum class Batching : uint8_t { kOn, kOff } batching = Batching::kOn;
  enum class Late : uint8_t { kReject, kDelay } late = Late::kReject;
  enum class Override : uint8_t { kYes, kNo } allow_override = Override::kYes;
  std::map<uint32_t, msg::QueuePolicy> of_levels{};

  msg::ModelSpec spec() const {
    auto spec = spec_of(max_batch, -1);
    spec.batching.dynamic = batching == Batching::kOn;
    spec.batching.preferred = preferred;
    spec.batching.max_delay = delay_ms * 1ms;
    spec.batching.priority_levels = levels, spec.batching.default_priority = level;
    spec.batching.max_queue = max_queue;
    spec.batching.queue_timeout = timeout_ms * 1ms;
    spec.batching.timeout_action = late == Late::kDelay ? Action::kDelay : Action::kReject;
    spec.batching.allow_timeout_override = allow_override == Override::kYes;
    spec.batching.levels = of_levels;
    return spec;
  }
};

// The events of a case, in order:
//   a      a call named a arrives with one row; a3: three rows; a!1: of priority 1; a~5: for 5 ms at most;
//          a/7: rows of another shape; a@20: its deadline is in 20 ms; a=2: of tenant 2
//   +10    10 ms pass
//   -a     a's client leaves
//   ?      an engine is free: the calls of its batch are expected; "." if it has to wait
// Calls that left the queue or were refused stand behind as "a:CODE".
struct Case {
  const char* rule;
  Policy policy;
  const char* happens;
  const char* expected;
};

const Case kCases[] = {
    // Whether calls share batches at all.
    {"without dynamic_batching each request is an execution",
     {.batching = Policy::Batching::kOff},
     "a b c ? ? ?",
     "a b c"},
    {"without dynamic_batching a request brings its own batch",
     {.batching = Policy::Batching::kOff},
     "a3 b2 ? ?",
     "a b"},
    {"without dynamic_batching nothing waits for the delay",
     {.delay_ms = 10, .batching = Policy::Batching::kOff},
     "a ?",
     "a"},
    {"max_batch_size 1 is one request at a time", {.max_batch = 1}, "a b ? ?", "a b"},
    {"max_batch_size 0 is one request at a time", {.max_batch = 0}, "a b ? ?", "a b"},
    // No delay, no preferred size.
    {"a free engine takes what is there", {}, "a ? b c d ?", "a bcd"},
    {"a free engine with nothing there waits", {}, "?", "."},
    {"17 that wait behind one: at most max_batch_size each",
     {.max_batch = 8},
     "a ? b c d e f g h i j k l m n o p q ? ? ?",
     "a bcdefghi jklmnopq ."},
    {"rows count, not requests", {.max_batch = 4}, "a2 b2 c1 ? ?", "ab c"},
    {"a request that does not fit is not overtaken", {.max_batch = 4}, "a2 b3 c1 ? ?", "a bc"},
    {"a full request runs alone", {.max_batch = 4}, "a4 b1 ? ?", "a b"},
    {"instances each take a batch of their own", {.max_batch = 4}, "a b c d e f ? ?", "abcd ef"},
    // Preferred sizes without a delay.
    {"the largest preferred size that is reached", {.preferred = {2, 4}}, "a b c d e ? ?", "abcd e"},
    {"what no preferred size reaches runs at once", {.preferred = {4, 8}}, "a b ?", "ab"},
    {"after a preferred batch the rest does not wait", {.preferred = {4}}, "a b c d e f ? ?", "abcd ef"},
    {"preferred sizes are counted in rows", {.preferred = {4}}, "a3 b1 c1 ? ?", "ab c"},
    {"a preferred size that is jumped over closes below it", {.preferred = {4}}, "a3 b3 ? ?", "a b"},
    {"a batch grows past a preferred size to reach a larger one", {.preferred = {2, 6}}, "a3 b1 c2 ?", "abc"},
    // A delay.
    {"the oldest request waits at most the delay", {.delay_ms = 10}, "a +6 b ? +4 ?", ". ab"},
    {"a full batch does not wait", {.max_batch = 2, .delay_ms = 10}, "a ? b c ? ?", ". ab ."},
    {"max_batch_size is the preferred size of those that name none",
     {.max_batch = 3, .delay_ms = 10},
     "a b ? c ?",
     ". abc"},
    {"a request that would overfill closes the batch", {.max_batch = 4, .delay_ms = 10}, "a3 b2 ? ?", "a ."},
    {"time spent while all engines work counts", {.delay_ms = 10}, "a b +10 c ?", "abc"},
    // Preferred sizes and a delay.
    {"a preferred size is worth the wait", {.preferred = {4}, .delay_ms = 10}, "a b c ? d ?", ". abcd"},
    {"a preferred size runs before the delay is over, the rest waits",
     {.preferred = {4}, .delay_ms = 10},
     "a b c d e ? ? +10 ?",
     "abcd . e"},
    {"after the delay all that is there runs", {.preferred = {4}, .delay_ms = 10}, "a b +10 c d e ?", "abcde"},
    {"after the delay a batch ends at max_batch_size",
     {.max_batch = 4, .preferred = {2}, .delay_ms = 10},
     "a b c d e +10 ? ?",
     "abcd e"},
    {"below the largest preferred size it waits for more",
     {.preferred = {4, 8}, .delay_ms = 10},
     "a3 b3 ? +10 ?",
     ". ab"},
    {"the largest preferred size jumped over closes below it",
     {.preferred = {2, 4}, .delay_ms = 10},
     "a3 b3 ? ? +10 ?",
     "a . b"},
    {"a request larger than every preferred size does not wait",
     {.preferred = {4}, .delay_ms = 10},
     "a6 ? b1 ?",
     "a ."},
    {"a request larger than every preferred size runs alone", {.preferred = {4}, .delay_ms = 10}, "a6 b1 ? ?", "a ."},
    {"a preferred size is looked for again after a batch",
     {.preferred = {2}, .delay_ms = 10},
     "a b c d ? ? ?",
     "ab cd ."},
    // Shapes.
    {"another shape closes the batch", {.delay_ms = 10}, "a b c/7 ? ? +10 ?", "ab . c"},
    {"shapes in turn are batches of one", {}, "a b/7 c d/7 ? ? ? ?", "a b c d"},
    {"a preferred size before another shape", {.preferred = {2}, .delay_ms = 10}, "a b c d/7 ? ?", "ab c"},
    // Priorities.
    {"the urgent go first", {.max_batch = 2, .levels = 2, .level = 2}, "a!2 b!1 c!2 d!1 ? ?", "bd ac"},
    {"a batch spans levels", {.levels = 3, .level = 3}, "a!3 b!1 c!2 ?", "bca"},
    {"no priority is the default level", {.max_batch = 1, .levels = 3, .level = 2}, "a!3 b c!1 ? ? ?", "c b a"},
    {"a level that is not there is the default level", {.max_batch = 1, .levels = 3, .level = 2}, "a!3 b!9 ? ?", "b a"},
    {"without levels priorities say nothing", {.max_batch = 1}, "a!2 b!1 ? ?", "a b"},
    {"the oldest of all levels ends the delay", {.delay_ms = 10, .levels = 2, .level = 1}, "a!2 +9 b!1 ? +1 ?", ". ba"},
    // Queue policies.
    {"max_queue_size refuses what is too much", {.max_batch = 1, .max_queue = 2}, "a b c ?", "a c:RESOURCE_EXHAUSTED"},
    {"max_queue_size counts requests, not rows", {.max_batch = 4, .max_queue = 2}, "a4 b4 ? ?", "a b"},
    {"max_queue_size 0 is any number", {.max_batch = 2}, "a b c d e f g h i j k l ?", "ab"},
    {"a request past its timeout is rejected", {.timeout_ms = 5}, "a +3 b +2 ?", "b a:UNAVAILABLE"},
    {"a request may shorten the timeout", {.timeout_ms = 50}, "a~5 b +5 ?", "b a:UNAVAILABLE"},
    {"a request may not lengthen the timeout", {.timeout_ms = 5}, "a~50 +5 ?", ". a:UNAVAILABLE"},
    {"without allow_timeout_override a request's own timeout is ignored",
     {.timeout_ms = 50, .allow_override = Policy::Override::kNo},
     "a~5 +5 ?",
     "a"},
    {"without allow_timeout_override the policy's timeout counts",
     {.timeout_ms = 50, .allow_override = Policy::Override::kNo},
     "a~5 +50 ?",
     ". a:UNAVAILABLE"},
    {"max_queue_size counts each level for itself",
     {.max_batch = 1, .levels = 2, .level = 2, .max_queue = 1},
     "a!1 b!2 c!1 ? ?",
     "a b c:RESOURCE_EXHAUSTED"},
    {"priority_queue_policy is that of its level",
     {.max_batch = 1, .levels = 2, .level = 2, .max_queue = 2, .of_levels = {{1, {.max_queue = 1}}}},
     "a!1 b!1 c d e ? ? ?",
     "a c d b:RESOURCE_EXHAUSTED e:RESOURCE_EXHAUSTED"},
    {"a level's timeout is its own",
     {.max_batch = 1, .levels = 2, .level = 2, .timeout_ms = 5, .of_levels = {{1, {.queue_timeout = 50ms}}}},
     "a!1 b!2 +5 ? ?",
     "a . b:UNAVAILABLE"},
    {"DELAY: a request past its timeout runs after the others",
     {.max_batch = 1, .timeout_ms = 5, .late = Policy::Late::kDelay},
     "a +3 b +2 c ? ? ?",
     "b c a"},
    {"DELAY: those that come later go before it, too",
     {.max_batch = 1, .timeout_ms = 5, .late = Policy::Late::kDelay},
     "a b +5 ? c ? ?",
     "a c b"},
    {"DELAY: two that are late keep their order",
     {.max_batch = 1, .timeout_ms = 5, .late = Policy::Late::kDelay},
     "a b +5 c ? ? ?",
     "c a b"},
    {"DELAY: within its level",
     {.max_batch = 1, .levels = 2, .level = 2, .timeout_ms = 5, .late = Policy::Late::kDelay},
     "a!1 +5 b!2 ? ?",
     "a b"},
    {"DELAY: it joins the batch of those before it",
     {.max_batch = 4, .timeout_ms = 5, .late = Policy::Late::kDelay},
     "a b +5 c ?",
     "cab"},
    {"DELAY: by a timeout of the request's own",
     {.max_batch = 1, .timeout_ms = 50, .late = Policy::Late::kDelay},
     "a~5 b +5 ? ?",
     "b a"},
    {"DELAY: a deadline still counts",
     {.max_batch = 1, .timeout_ms = 5, .late = Policy::Late::kDelay},
     "a@20 +20 ?",
     ". a:DEADLINE_EXCEEDED"},
    {"DELAY: a client that has left fills no batch",
     {.max_batch = 2, .timeout_ms = 5, .late = Policy::Late::kDelay},
     "a b c +5 -a ?",
     "bc a:CANCELLED"},
    {"DELAY: the order that it makes may reach a preferred size",
     {.preferred = {2, 8}, .delay_ms = 100, .timeout_ms = 5, .late = Policy::Late::kDelay},
     "a +3 b2 ? +2 ? ? +95 ?",
     ". b . a"},
    {"DELAY: Triton's test_policy_delay",
     {.max_batch = 32, .preferred = {4, 8}, .delay_ms = 10'000, .timeout_ms = 100, .late = Policy::Late::kDelay},
     "a ? +200 b2 c2 ? ? +9799 ? +1 ?",
     ". bc . . a"},
    {"Triton's test_priority_with_policy",
     {.max_batch = 32,
      .preferred = {4, 8, 32},
      .delay_ms = 10'000,
      .levels = 2,
      .level = 2,
      .timeout_ms = 11'000,
      .late = Policy::Late::kDelay,
      .of_levels = {{2, {.queue_timeout = 11s}}}},
     "a2!1 +200 b1!1~1000 +200 c2!1 +200 d2!2~2000 +200 e3 +200 f6 ? +200 ? +1400 ? ?",
     ". ac be . d:UNAVAILABLE"},
    {"unlike Triton's test_policy_reject: a free engine does not let a timeout pass",
     {.max_batch = 32, .preferred = {4, 8}, .delay_ms = 10'000, .timeout_ms = 100},
     "a +49 ? +1 ?",
     ". a"},
    {"rejected requests fill no preferred size",
     {.preferred = {2}, .delay_ms = 10, .timeout_ms = 0},
     "a~4 +5 b ? c ?",
     ". bc a:UNAVAILABLE"},
    {"a client that has left fills no batch", {.max_batch = 2}, "a b c -a ?", "bc a:CANCELLED"},
    {"a deadline that has passed fills no batch", {.max_batch = 2}, "a@5 b c +5 ?", "bc a:DEADLINE_EXCEEDED"},
    {"a deadline ends the wait for company halfway", {.delay_ms = 100}, "a@20 b ? +10 ?", ". ab"},
    // Tenants, of which Triton knows nothing.
    {"tenants take turns", {.max_batch = 1}, "a=1 b=1 c=1 d=2 ? ? ? ?", "a d b c"},
    {"a tenant's first request goes before what others had waiting",
     {.max_batch = 1},
     "a=1 b=1 c=1 d=1 ? ? e=2 ? ? ?",
     "a b c e d"},
    {"tenants share batches", {.max_batch = 4}, "a=1 b=1 c=1 d=1 e=1 f=2 ? ?", "afbc de"},
    {"turns are an eighth of a batch", {.max_batch = 16}, "a=1 b=1 c=1 d=1 e=2 ?", "abecd"},
    {"turns are counted in rows", {.max_batch = 4}, "a3=1 b=1 c=2 d=2 e=2 ? ?", "ac deb"},
    {"without dynamic_batching turns are requests",
     {.max_batch = 64, .batching = Policy::Batching::kOff},
     "a=1 b=1 c=1 d=2 ? ? ? ?",
     "a d b c"},
    {"each level has turns of its own",
     {.max_batch = 1, .levels = 2, .level = 2},
     "a=1 b=1 c!1=1 d=2 ? ? ? ?",
     "c a d b"},
    {"delayed requests take turns",
     {.max_batch = 1, .timeout_ms = 5, .late = Policy::Late::kDelay},
     "a=1 b=1 c=1 +5 ? d=2 +5 ? ? ?",
     "a b d c"},
    {"who has most makes room in a full queue",
     {.max_batch = 1, .max_queue = 3},
     "a=1 b=1 c=1 d=2 ? ? ?",
     "a d b c:RESOURCE_EXHAUSTED"},
    {"who has as many as any is refused itself",
     {.max_batch = 1, .max_queue = 2},
     "a=1 b=2 c=3 ? ?",
     "a b c:RESOURCE_EXHAUSTED"},
    {"those that may leave make room first",
     {.max_batch = 1, .max_queue = 3},
     "a=1 b=1 c=1 -b d=2 ? ? ?",
     "a d c b:CANCELLED"},
};

msg::Call& arrive(Line& line, const std::string& word) {
  auto& call = line.calls.emplace_back();
  call.id = word.substr(0, 1);
  uint32_t rows = 1;
  int64_t width = 2;
  for (size_t at = 1; at < word.size();) {
    char kind = word[at];
    if (isdigit(kind) == 0) ++at;
    size_t used = 0;
    int n = std::stoi(word.substr(at), &used);
    at += used;
    if (kind == '!')
      call.priority = uint32_t(n);
    else if (kind == '~')
      call.queue_timeout = n * 1ms;
    else if (kind == '@')
      call.deadline = line.now + n * 1ms;
    else if (kind == '/')
      width = n;
    else if (kind == '=')
      call.tenant = uint64_t(n);
    else
      rows = uint32_t(n);
  }
  fill(call, rows, 0, width);
  line.queue(call);
  if (!line.status.ok()) line.dropped.push_back({&call, line.status});
  return call;
}

std::string run(const Case& c) {
  Line line(c.policy.spec());
  std::istringstream words(c.happens);
  std::string said;
  for (std::string word; words >> word;) {
    if (word == "?") {
      auto ready = line.batcher.ready_at(line.now) <= line.now;
      auto batch = line.next();
      EXPECT_EQ(ready, !batch.empty()) << "ready_at() and next() agree: " << c.rule;
      said += (batch.empty() ? "." : batch) + " ";
    } else if (word[0] == '+') {
      line.now += std::stoi(word.substr(1)) * 1ms;
    } else if (word[0] == '-') {
      for (auto& call : line.calls)
        if (call.id == word.substr(1)) call.cancelled = true;
    } else {
      arrive(line, word);
    }
  }
  said += line.left();
  said.pop_back();
  return said;
}

TEST(BatchForming, GoesByTritonsRules) {
  for (const auto& c : kCases) EXPECT_EQ(run(c), c.expected) << c.rule << ": " << c.happens;
}

// Calls that come while every engine works, and how many executions they are once the engines are free again.
struct Busy {
  const char* rule;
  Policy policy;
  int instances;
  uint32_t calls, rows;
  uint64_t executions;  // beside the first, one per instance
  uint32_t largest;     // batch
};

const Busy kBusy[] = {
    {"17 slow ones: one, and the 16 that waited together", {.max_batch = 16}, 1, 16, 1, 1, 16},
    {"17 slow ones with max_batch_size 8", {.max_batch = 8}, 1, 16, 1, 2, 8},
    {"17 slow ones with preferred sizes", {.max_batch = 8, .preferred = {4}}, 1, 16, 1, 4, 4},
    {"17 slow ones that waited longer than the delay",
     {.max_batch = 16, .preferred = {4}, .delay_ms = 1},
     1,
     16,
     1,
     1,
     16},
    {"17 slow ones without dynamic_batching", {.max_batch = 16, .batching = Policy::Batching::kOff}, 1, 16, 1, 16, 1},
    {"64 without dynamic_batching on four instances",
     {.max_batch = 16, .batching = Policy::Batching::kOff},
     4,
     64,
     1,
     64,
     1},
    {"two instances share what waits", {.max_batch = 8}, 2, 16, 1, 2, 8},
    {"requests of three rows", {.max_batch = 8}, 1, 6, 3, 3, 6},
};

TEST(BatchForming, SlowEnginesTakeAllThatHasWaited) {
  for (const auto& b : kBusy) {
    SCOPED_TRACE(b.rule);
    Gate gate;
    EventRecorder recorder;
    bus::ModelStats stats;
    auto spec = b.policy.spec();
    std::vector<std::unique_ptr<Engine>> engines;
    for (int i = 0; i < b.instances; ++i) engines.push_back(std::make_unique<Doubler>(&gate));
    std::deque<msg::Call> calls;
    auto lanes = make_lanes(std::move(engines), spec, stats, base::heap());
    auto put = [&](uint32_t rows) {
      auto& call = calls.emplace_back();
      fill(call, rows, 1);
      call.home = &recorder;
      lanes->put(&call);
    };
    for (int i = 0; i < b.instances; ++i) put(1), gate.until_waiting(i + 1);
    for (uint32_t i = 0; i < b.calls; ++i) put(b.rows);
    auto waited = base::steady_now() + 5ms;  // longer than any delay above
    while (base::steady_now() < waited) std::this_thread::yield();
    gate.open();
    recorder.until(calls.size());
    lanes.reset();
    EXPECT_EQ(stats.execution_count, uint64_t(b.instances) + b.executions);
    EXPECT_EQ(stats.inference_count, uint64_t(b.instances) + b.calls * b.rows);
    EXPECT_EQ(stats.batches().rbegin()->first, b.largest);
  }
}

// Any tensors, returned: what the identity engine does.
class Echo final : public Engine {
 public:
  explicit Echo(Gate& gate) : gate_(gate) {}
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(Batch& batch) override {
    gate_.wait();
    batch.outputs = batch.inputs;
    return {};
  }

 private:
  Gate& gate_;
  msg::ModelSpec spec_;
};

std::string echoed(const msg::Mail& mail) {
  if (auto text = text_of(mail.event); text != "ok") return text;
  std::string out;
  for (const auto& t : std::get<msg::Outputs>(mail.event.what).tensors) {
    out += t.name + t.shape.text() + "=";
    if (t.dtype == msg::DType::kFp32)
      for (float v : floats_of(t)) out += std::to_string(int(v)) + " ";
    else
      msg::for_each_string(t.data.view(), [&](std::string_view s) { (out += s) += ' '; });
  }
  return out;
}

TEST(BatchForming, ModelsThatTakeAnyTensorsShareBatchesOfCallsWithTheSameOnes) {
  Gate gate;
  EventRecorder recorder(echoed);
  bus::ModelStats stats;
  auto spec = spec_of(16);
  spec.any_tensors = true, spec.inputs.clear(), spec.outputs.clear();
  std::vector<std::unique_ptr<Engine>> engines;
  engines.push_back(std::make_unique<Echo>(gate));
  std::deque<msg::Call> calls;
  auto lanes = make_lanes(std::move(engines), spec, stats, base::heap());
  auto put = [&](uint32_t rows, std::vector<msg::Tensor> inputs) -> msg::Call& {
    auto& call = calls.emplace_back();
    call.rows = rows, call.inputs = std::move(inputs), call.home = &recorder;
    lanes->put(&call);
    return call;
  };
  put(1, {floats("x", {1, 1}, {0})});
  gate.until_waiting(1);
  auto& a = put(1, {floats("x", {1, 1}, {1}), strings("s", {1}, {"one"})});
  auto& b = put(2, {floats("x", {2, 1}, {2, 3}), strings("s", {2}, {"two", "three"})});
  b.outputs = {"s"};
  auto& other_name = put(1, {floats("y", {1, 1}, {4})});
  auto& no_rows = put(1, {floats("y", {3}, {5, 6, 7})});
  auto& no_rows_too = put(1, {floats("y", {3}, {5, 6, 7})});
  gate.open();
  recorder.until(calls.size());
  EXPECT_EQ(recorder.of(a), "x[1,1]=1 s[1]=one ");
  EXPECT_EQ(recorder.of(b), "s[2]=two three ");
  EXPECT_EQ(recorder.of(other_name), "y[1,1]=4 ");
  EXPECT_EQ(recorder.of(no_rows), "y[3]=5 6 7 ");
  EXPECT_EQ(recorder.of(no_rows_too), "y[3]=5 6 7 ");
  lanes.reset();
  EXPECT_EQ(stats.execution_count, 5u);
  EXPECT_EQ(stats.inference_count, 7u);
}

}  // namespace
}  // namespace weir::sched
