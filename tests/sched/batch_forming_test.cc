// Which calls form which batch, case by case, after the rules of Triton's dynamic batcher (dynamic_batch_scheduler.cc:
// GetDynamicBatch; scheduler_utils.cc: PriorityQueue), of the Batcher alone.
#include <gtest/gtest.h>

#include <sstream>

#include "line.h"
#include "queue_rules.h"

namespace weir::sched {
namespace {

// The events of a case, in order:
//   a      a call named a arrives with one row; a3: three rows; a!1: of priority 1; a~5: for 5 ms at most;
//          a/7: rows of another shape; a@20: its deadline is in 20 ms; a=2: of tenant 2
//   +10    10 ms pass
//   -a     a's client leaves
//   ?      an engine is free: the calls of its batch are expected; "." if it has to wait
// Calls that left the queue or were refused stand behind as "a:CODE".
struct Case {
  const char* rule;
  QueueRules policy;
  const char* happens;
  const char* expected;
};

const Case kCases[] = {
    // Whether calls share batches at all.
    {"without dynamic_batching each request is an execution",
     {.batching = QueueRules::Batching::kOff},
     "a b c ? ? ?",
     "a b c"},
    {"without dynamic_batching a request brings its own batch",
     {.batching = QueueRules::Batching::kOff},
     "a3 b2 ? ?",
     "a b"},
    {"without dynamic_batching nothing waits for the delay",
     {.delay_ms = 10, .batching = QueueRules::Batching::kOff},
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
     {.timeout_ms = 50, .allow_override = QueueRules::Override::kNo},
     "a~5 +5 ?",
     "a"},
    {"without allow_timeout_override the policy's timeout counts",
     {.timeout_ms = 50, .allow_override = QueueRules::Override::kNo},
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
     {.max_batch = 1, .timeout_ms = 5, .late = QueueRules::Late::kDelay},
     "a +3 b +2 c ? ? ?",
     "b c a"},
    {"DELAY: those that come later go before it, too",
     {.max_batch = 1, .timeout_ms = 5, .late = QueueRules::Late::kDelay},
     "a b +5 ? c ? ?",
     "a c b"},
    {"DELAY: two that are late keep their order",
     {.max_batch = 1, .timeout_ms = 5, .late = QueueRules::Late::kDelay},
     "a b +5 c ? ? ?",
     "c a b"},
    {"DELAY: within its level",
     {.max_batch = 1, .levels = 2, .level = 2, .timeout_ms = 5, .late = QueueRules::Late::kDelay},
     "a!1 +5 b!2 ? ?",
     "a b"},
    {"DELAY: it joins the batch of those before it",
     {.max_batch = 4, .timeout_ms = 5, .late = QueueRules::Late::kDelay},
     "a b +5 c ?",
     "cab"},
    {"DELAY: by a timeout of the request's own",
     {.max_batch = 1, .timeout_ms = 50, .late = QueueRules::Late::kDelay},
     "a~5 b +5 ? ?",
     "b a"},
    {"DELAY: a deadline still counts",
     {.max_batch = 1, .timeout_ms = 5, .late = QueueRules::Late::kDelay},
     "a@20 +20 ?",
     ". a:DEADLINE_EXCEEDED"},
    {"DELAY: a client that has left fills no batch",
     {.max_batch = 2, .timeout_ms = 5, .late = QueueRules::Late::kDelay},
     "a b c +5 -a ?",
     "bc a:CANCELLED"},
    {"DELAY: the order that it makes may reach a preferred size",
     {.preferred = {2, 8}, .delay_ms = 100, .timeout_ms = 5, .late = QueueRules::Late::kDelay},
     "a +3 b2 ? +2 ? ? +95 ?",
     ". b . a"},
    {"DELAY: Triton's test_policy_delay",
     {.max_batch = 32, .preferred = {4, 8}, .delay_ms = 10'000, .timeout_ms = 100, .late = QueueRules::Late::kDelay},
     "a ? +200 b2 c2 ? ? +9799 ? +1 ?",
     ". bc . . a"},
    {"Triton's test_priority_with_policy",
     {.max_batch = 32,
      .preferred = {4, 8, 32},
      .delay_ms = 10'000,
      .levels = 2,
      .level = 2,
      .timeout_ms = 11'000,
      .late = QueueRules::Late::kDelay,
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
     {.max_batch = 64, .batching = QueueRules::Batching::kOff},
     "a=1 b=1 c=1 d=2 ? ? ? ?",
     "a d b c"},
    {"each level has turns of its own",
     {.max_batch = 1, .levels = 2, .level = 2},
     "a=1 b=1 c!1=1 d=2 ? ? ? ?",
     "c a d b"},
    {"delayed requests take turns",
     {.max_batch = 1, .timeout_ms = 5, .late = QueueRules::Late::kDelay},
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

}  // namespace
}  // namespace weir::sched
