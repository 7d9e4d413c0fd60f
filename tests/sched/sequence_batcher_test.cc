#include "sched/sequence_batcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "msg/tenant.h"

namespace weir::sched {
namespace {

using namespace std::chrono_literals;
using Arrival = SequenceBatcher::Arrival;
using Finish = SequenceBatcher::Finish;
enum class Flags { kNone, kStart, kEnd, kBoth };

struct Bench {
  explicit Bench(size_t slots, size_t waiting = 100, size_t instances = 1, size_t pipelined = 100)
      : batcher({slots, waiting, 10s, {}, instances, pipelined}) {}
  Arrival arrive(uint64_t id, Flags flags, uint64_t tenant = 0) {
    last = &calls.emplace_back();
    last->session = {tenant, id};
    return batcher.arrive(
        {tenant, {0, id}},
        {last, flags == Flags::kStart || flags == Flags::kBoth, flags == Flags::kEnd || flags == Flags::kBoth}, now);
  }
  std::vector<SequenceBatcher::Run> runs() {
    std::vector<SequenceBatcher::Run> out;
    for (SequenceBatcher::Run run; batcher.next(run);) out.push_back(run);
    return out;
  }
  void finish(const SequenceBatcher::Run& run, Finish how = Finish::kAnswered) {
    batcher.finish(*run.sequence, how, now, dropped);
  }
  SequenceBatcher batcher;
  base::Time now = base::Time(1000s);
  std::deque<msg::Call> calls;
  msg::Call* last = nullptr;
  std::vector<msg::Call*> dropped;
};

TEST(SequenceBatcher, ARequestWithoutAStartIsOfNoSequence) {
  Bench bench(2);
  EXPECT_EQ(bench.arrive(1, Flags::kNone), Arrival::kNotStarted);
  EXPECT_EQ(bench.arrive(1, Flags::kEnd), Arrival::kNotStarted);
  EXPECT_EQ(bench.arrive(1, Flags::kStart), Arrival::kAccepted);
  EXPECT_EQ(bench.arrive(1, Flags::kEnd), Arrival::kAccepted);
  EXPECT_EQ(bench.arrive(1, Flags::kNone), Arrival::kNotStarted);
}

TEST(SequenceBatcher, IdsOfTwoTenantsAreTwoSequences) {
  Bench bench(2);
  EXPECT_EQ(bench.arrive(1, Flags::kStart, 7), Arrival::kAccepted);
  EXPECT_EQ(bench.arrive(1, Flags::kNone, 9), Arrival::kNotStarted);
}

TEST(SequenceBatcher, RequestsOfOneSequenceRunOneByOneAndOfTwoTogether) {
  Bench bench(2);
  bench.arrive(1, Flags::kStart);
  bench.arrive(1, Flags::kEnd);
  auto* second = bench.last;
  bench.arrive(2, Flags::kBoth);
  auto runs = bench.runs();
  ASSERT_EQ(runs.size(), 2u);
  bench.finish(runs[1]);
  EXPECT_TRUE(bench.runs().empty());
  bench.finish(runs[0]);
  runs = bench.runs();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].request.call, second);
  bench.finish(runs[0]);
  EXPECT_EQ(bench.batcher.sequences(), 0u);
}

TEST(SequenceBatcher, ASequenceWaitsForASlotUntilAnotherEndsOrIsIdleForTooLong) {
  Bench bench(1);
  bench.arrive(1, Flags::kStart);
  auto first = bench.runs();
  bench.arrive(2, Flags::kStart);
  EXPECT_TRUE(bench.runs().empty());
  bench.finish(first[0]);
  EXPECT_TRUE(bench.runs().empty());
  EXPECT_EQ(bench.batcher.expires_at(), bench.now + 10s);
  bench.now += 9s;
  bench.batcher.expire(bench.now);
  EXPECT_TRUE(bench.runs().empty());
  bench.now += 1s;
  bench.batcher.expire(bench.now);
  EXPECT_EQ(bench.runs().size(), 1u);
  EXPECT_EQ(bench.arrive(1, Flags::kNone), Arrival::kNotStarted);
}

TEST(SequenceBatcher, ASequenceIsBoundToOneInstanceForAsLongAsItHasItsSlot) {
  Bench bench(4, 100, 2);
  auto instances = [&] {
    std::map<uint64_t, size_t> out;
    for (auto runs = bench.runs(); !runs.empty(); runs = bench.runs())
      for (auto& run : runs) {
        out[run.request.call->session.low] = run.sequence->instance();
        bench.finish(run);
      }
    return out;
  };
  using Bound = std::map<uint64_t, size_t>;
  for (uint64_t id = 1; id <= 6; ++id) bench.arrive(id, Flags::kStart);
  EXPECT_EQ(instances(), (Bound{{1, 0}, {2, 1}, {3, 0}, {4, 1}}));
  for (uint64_t id : {4, 3}) bench.arrive(id, Flags::kNone);
  EXPECT_EQ(instances(), (Bound{{3, 0}, {4, 1}}));
  for (uint64_t id : {1, 3}) bench.arrive(id, Flags::kEnd);
  EXPECT_EQ(instances(), (Bound{{1, 0}, {3, 0}, {5, 0}, {6, 0}})) << "those that waited have the instance that is free";
  bench.now += 10s;
  bench.batcher.expire(bench.now);
  bench.arrive(7, Flags::kStart);
  bench.arrive(8, Flags::kStart);
  EXPECT_EQ(instances(), (Bound{{7, 0}, {8, 1}}));
}

TEST(SequenceBatcher, ARequestThatRunsKeepsItsSequence) {
  Bench bench(1);
  bench.arrive(1, Flags::kStart);
  auto runs = bench.runs();
  bench.now += 1h;
  EXPECT_EQ(bench.arrive(1, Flags::kNone), Arrival::kAccepted);
  bench.finish(runs[0]);
  EXPECT_EQ(bench.runs().size(), 1u);
}

TEST(SequenceBatcher, SequencesThatWaitAreBoundedAndThoseInSlotsAreNot) {
  Bench bench(1, 1);
  bench.arrive(1, Flags::kStart);
  EXPECT_EQ(bench.arrive(2, Flags::kStart), Arrival::kAccepted);
  EXPECT_EQ(bench.arrive(3, Flags::kStart), Arrival::kFull);
  for (uint64_t id : {1, 2, 1, 2}) EXPECT_EQ(bench.arrive(id, Flags::kNone), Arrival::kAccepted);
}

TEST(SequenceBatcher, ARequestThatFindsItsSequenceFullEndsItBehindThoseThatWait) {
  Bench bench(1, 100, 1, 2);
  bench.arrive(1, Flags::kStart);
  auto runs = bench.runs();
  bench.arrive(2, Flags::kBoth);
  auto* other = bench.last;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(bench.arrive(1, Flags::kNone), Arrival::kAccepted);
  EXPECT_EQ(bench.arrive(1, Flags::kNone), Arrival::kPipelineFull);
  EXPECT_EQ(bench.arrive(1, Flags::kNone), Arrival::kNotStarted);
  for (int i = 0; i < 2; ++i) {
    bench.finish(runs[0]);
    runs = bench.runs();
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_NE(runs[0].request.call, other);
  }
  bench.finish(runs[0]);
  runs = bench.runs();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].request.call, other) << "the slot is free";
}

TEST(SequenceBatcher, ASequenceEndsEarlyWhereverItIs) {
  Bench bench(3);
  for (uint64_t id = 1; id <= 4; ++id) bench.arrive(id, Flags::kStart);  // 4 waits for a slot
  auto runs = bench.runs();
  bench.finish(runs[0]);  // 1 is idle
  for (uint64_t id : {1, 2, 4}) {
    bench.batcher.end_early({0, {0, id}}, bench.now);
    EXPECT_EQ(bench.arrive(id, Flags::kNone), Arrival::kNotStarted);
  }
  EXPECT_EQ(bench.arrive(3, Flags::kNone), Arrival::kAccepted);
  auto fourth = bench.runs();
  ASSERT_EQ(fourth.size(), 1u) << "it has the slot of the first";
  bench.finish(fourth[0]);
  bench.finish(runs[1]);
  EXPECT_EQ(bench.batcher.sequences(), 1u);
}

TEST(SequenceBatcher, OnlySequencesWithoutASlotTimeOut) {
  Bench bench(1);
  bench.arrive(1, Flags::kStart);
  auto runs = bench.runs();
  bench.arrive(1, Flags::kNone);
  bench.arrive(2, Flags::kStart);
  auto* waits = bench.last;
  bench.batcher.time_out([](const msg::Call&) { return true; }, bench.now, bench.dropped);
  EXPECT_EQ(bench.dropped, std::vector<msg::Call*>{waits});
  bench.finish(runs[0]);
  EXPECT_EQ(bench.runs().size(), 1u);
}

TEST(SequenceBatcher, AnAbortEndsTheSequenceAndThoseThatWaitInIt) {
  Bench bench(1);
  bench.arrive(1, Flags::kStart);
  bench.arrive(1, Flags::kNone);
  auto* waits = bench.last;
  bench.arrive(2, Flags::kStart);
  bench.finish(bench.runs()[0], Finish::kAborts);
  EXPECT_EQ(bench.dropped, std::vector<msg::Call*>{waits});
  EXPECT_EQ(bench.runs().size(), 1u);  // the slot is free
  EXPECT_EQ(bench.arrive(1, Flags::kNone), Arrival::kNotStarted);
}

TEST(SequenceBatcher, AWaitingRequestThatGoesEndsItsSequenceOnceTheRunningOneIsDone) {
  Bench bench(1);
  bench.arrive(1, Flags::kStart);
  auto runs = bench.runs();
  bench.arrive(1, Flags::kNone);
  auto* gone = bench.last;
  bench.arrive(2, Flags::kStart);
  bench.batcher.drop([&](const msg::Call& call) { return &call == gone; }, bench.now, bench.dropped);
  EXPECT_EQ(bench.dropped, std::vector<msg::Call*>{gone});
  EXPECT_EQ(bench.arrive(1, Flags::kNone), Arrival::kNotStarted);
  EXPECT_TRUE(bench.runs().empty());
  bench.finish(runs[0]);
  EXPECT_EQ(bench.runs().size(), 1u);
  EXPECT_EQ(bench.batcher.sequences(), 1u);
}

TEST(SequenceBatcher, SlotsGoToTheTenantThatHasFewest) {
  Bench bench(2);
  bench.arrive(1, Flags::kStart, 2);
  bench.arrive(2, Flags::kStart, 2);
  auto running = bench.runs();
  bench.arrive(3, Flags::kStart, 2);
  bench.arrive(1, Flags::kStart, 4);
  auto* other = bench.last;
  bench.finish(running[0], Finish::kAborts);
  auto runs = bench.runs();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].request.call, other);
}

TEST(SequenceBatcher, OneTenantThatKeepsAllSlotsBusyGivesOneUpForAnotherThatWaits) {
  Bench bench(4);
  for (uint64_t id = 1; id <= 4; ++id) bench.arrive(id, Flags::kStart, 2);
  for (auto& run : bench.runs()) bench.finish(run);
  bench.arrive(9, Flags::kStart, 4);
  auto* waits = bench.last;
  std::vector<msg::Call*> ran;
  for (int second = 0; second <= 10; ++second) {
    for (uint64_t id = 1; id <= 4; ++id) bench.arrive(id, Flags::kNone, 2);
    for (auto& run : bench.runs()) {
      ran.push_back(run.request.call);
      bench.finish(run);
    }
    bench.now += 1s;
    bench.batcher.expire(bench.now);
  }
  for (auto& run : bench.runs()) ran.push_back(run.request.call);
  EXPECT_EQ(std::count(ran.begin(), ran.end(), waits), 1);
  EXPECT_EQ(bench.arrive(1, Flags::kNone, 2), Arrival::kNotStarted) << "the least recently used one has ended";
  EXPECT_EQ(bench.arrive(2, Flags::kNone, 2), Arrival::kAccepted);
}

TEST(SequenceBatcher, ASequenceThatIsNeverIdleIsEvictedToo) {
  Bench bench(1);
  bench.arrive(1, Flags::kStart, 2);
  auto runs = bench.runs();
  bench.arrive(1, Flags::kNone, 2);
  bench.arrive(1, Flags::kStart, 4);
  auto* waits = bench.last;
  EXPECT_EQ(bench.batcher.expires_at(), bench.now + 10s);
  bench.now += 10s;
  bench.batcher.expire(bench.now);
  EXPECT_EQ(bench.batcher.expires_at(), base::kNever) << "nothing to do until the request that runs is over";
  EXPECT_EQ(bench.arrive(1, Flags::kNone, 2), Arrival::kNotStarted);
  bench.finish(runs[0]);
  runs = bench.runs();
  ASSERT_EQ(runs.size(), 1u) << "a request that was taken is run";
  EXPECT_NE(runs[0].request.call, waits);
  bench.finish(runs[0]);
  runs = bench.runs();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].request.call, waits);
}

TEST(SequenceBatcher, WhereNobodyHasMoreThanAShareNobodyIsEvicted) {
  Bench bench(4);
  for (uint64_t tenant : {2, 4, 6, 8}) bench.arrive(1, Flags::kStart, tenant);
  auto running = bench.runs();
  bench.arrive(1, Flags::kStart, 10);
  EXPECT_EQ(bench.batcher.expires_at(), base::kNever);
  bench.now += 1h;
  bench.batcher.expire(bench.now);
  for (auto& run : running) bench.finish(run);
  EXPECT_EQ(bench.arrive(1, Flags::kNone, 2), Arrival::kAccepted);
}

TEST(SequenceBatcher, ATenantThatSpeaksForManyKeepsItsSlots) {
  Bench bench(2);
  for (uint64_t id : {1, 2}) bench.arrive(id, Flags::kStart, msg::kManyClients | 1);
  auto running = bench.runs();
  bench.arrive(1, Flags::kStart, 10);
  bench.now += 1h;
  bench.batcher.expire(bench.now);
  for (auto& run : running) bench.finish(run);
  EXPECT_EQ(bench.arrive(1, Flags::kNone, msg::kManyClients | 1), Arrival::kAccepted);
}

TEST(SequenceBatcher, OneTenantsSequencesDoNotFillTheLine) {
  Bench bench(1, 8);
  bench.arrive(1, Flags::kStart, 2);
  (void)bench.runs();
  for (uint64_t id = 2; id <= 5; ++id) EXPECT_EQ(bench.arrive(id, Flags::kStart, 2), Arrival::kAccepted);
  EXPECT_EQ(bench.arrive(6, Flags::kStart, 2), Arrival::kOverShare);
  EXPECT_EQ(bench.arrive(1, Flags::kNone, 2), Arrival::kAccepted) << "it has begun";
  EXPECT_EQ(bench.arrive(1, Flags::kStart, 4), Arrival::kAccepted);
}

TEST(SequenceBatcher, ManySequencesThatStartAndVanishHoldNoMoreThanTheSlots) {
  Bench bench(64, 16);
  for (uint64_t id = 1; id <= 100'000; ++id) {
    (void)bench.arrive(id, Flags::kStart);
    for (auto& run : bench.runs()) bench.finish(run);
    bench.calls.clear();
    ASSERT_LE(bench.batcher.sequences(), 64u);
    if (bench.batcher.waiting() == 16) {
      bench.now += 10s;
      bench.batcher.expire(bench.now);
      bench.batcher.drop([](const msg::Call&) { return true; }, bench.now, bench.dropped);
      bench.dropped.clear();
    }
  }
}

struct WaitingRequests {
  size_t all = 0, sequences = 0, longest = 0;  // those of the sequence that has most
};
WaitingRequests count_lines(const std::map<uint64_t, std::deque<msg::Call*>>& lines, const std::set<uint64_t>& busy) {
  WaitingRequests out;
  for (auto& [id, line] : lines) {
    out.all += line.size(), out.longest = std::max(out.longest, line.size());
    out.sequences += size_t(!line.empty() && !busy.contains(id));
  }
  return out;
}

// The rules again, written down plainly: what one sequence may do, and how many there are.
TEST(SequenceBatcher, RandomStepsKeepOrderSlotsAndBounds) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    const size_t slots = 1 + random() % 3, most = 1 + random() % 3, pipelined = 1 + random() % 4;
    Bench bench(slots, most, 1, pipelined);
    std::map<uint64_t, std::deque<msg::Call*>> expected;  // by id: those that came and have not run, in order
    std::map<msg::Call*, uint64_t> id_of;
    std::vector<SequenceBatcher::Run> running;
    std::set<uint64_t> busy;
    size_t over = 0;
    for (int step = 0; step < 400; ++step) {
      const uint32_t what = random() % 10;
      if (what < 6) {
        const uint64_t id = 1 + random() % 5;
        if (bench.arrive(id, Flags(random() % 4), 2 * (id % 3)) == Arrival::kAccepted) {
          expected[id].push_back(bench.last);
          id_of[bench.last] = id;
        }
      } else if (what < 9 && !running.empty()) {
        const size_t at = random() % running.size();
        const uint64_t id = id_of.at(running[at].request.call);
        busy.erase(id);
        ++over;
        bench.finish(running[at], random() % 8 == 0 ? Finish::kAborts : Finish::kAnswered);
        running.erase(running.begin() + std::ptrdiff_t(at));
      } else {
        bench.now += std::chrono::seconds(random() % 6);
        bench.batcher.expire(bench.now);
        if (random() % 4 == 0)
          bench.batcher.drop([&](const msg::Call&) { return random() % 5 == 0; }, bench.now, bench.dropped);
      }
      for (auto* call : bench.dropped) {
        auto& line = expected[id_of.at(call)];
        ASSERT_EQ(std::erase(line, call), 1u) << "seed " << seed;
        ++over;
      }
      bench.dropped.clear();
      for (auto& run : bench.runs()) {
        const uint64_t id = id_of.at(run.request.call);
        ASSERT_EQ(expected[id].front(), run.request.call) << "seed " << seed;
        ASSERT_TRUE(busy.insert(id).second) << "two of one sequence at once, seed " << seed;
        expected[id].pop_front();
        running.push_back(run);
      }
      ASSERT_LE(bench.batcher.sequences(), slots) << "seed " << seed;
      const WaitingRequests waiting = count_lines(expected, busy);
      ASSERT_EQ(waiting.all, bench.batcher.waiting()) << "seed " << seed;
      ASSERT_TRUE(waiting.sequences <= most && waiting.longest <= pipelined) << "seed " << seed;
    }
    while (!running.empty() || bench.batcher.waiting() > 0) {
      for (auto& run : std::exchange(running, {})) ++over, bench.finish(run);
      bench.now += 11s;
      bench.batcher.expire(bench.now);
      running = bench.runs();
    }
    EXPECT_EQ(id_of.size(), over) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weir::sched
