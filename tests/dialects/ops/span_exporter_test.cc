#include "dialects/ops/span_exporter.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace weir::ops {
namespace {

using namespace std::chrono_literals;
using Fate = SpanExporter::Reply::Fate;

// A collector that gives the answers of a test in their order, and then takes everything.
struct Desk {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> got;
  std::deque<SpanExporter::Reply> answers;
  bool silent = false;  // does not answer until it is cut off
  bool cut = false;

  SpanExporter::Reply post(std::string spans) {
    std::unique_lock lock(mutex);
    got.push_back(std::move(spans));
    changed.notify_all();
    changed.wait(lock, [this] { return !silent || cut; });
    if (answers.empty()) return {};
    auto answer = answers.front();
    answers.pop_front();
    return answer;
  }
  void wait_for(size_t posts) {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, 20s, [&] { return got.size() >= posts; }));
  }
  void cut_off() {
    std::lock_guard lock(mutex);
    cut = true;
    changed.notify_all();
  }
};

struct Exporting : testing::Test {
  base::Metrics metrics;
  Desk desk;
  ExportRules rules;
  std::unique_ptr<SpanExporter> exporter;

  Exporting() { rules.first_pause = 1ms, rules.longest_pause = 2ms; }
  void open() {
    exporter = std::make_unique<SpanExporter>([this](std::string spans) { return desk.post(std::move(spans)); }, rules,
                                              metrics);
  }
  void put(std::string spans, uint32_t count = 1) {
    exporter->put(spans, count);
    EXPECT_TRUE(spans.empty());
  }
  void stop(base::Duration most = 20s) {
    exporter->stop(most, [this] { desk.cut_off(); });
  }
  std::string count(const char* outcome) {
    const std::string series = std::string("weir_spans_total{outcome=\"") + outcome + "\"} ", text = metrics.text();
    size_t at = text.find(series);
    return at == text.npos ? "" : text.substr(at + series.size(), text.find('\n', at) - at - series.size());
  }
};

TEST_F(Exporting, AFullBatchGoesAtOnceAndTheRestAtTheEnd) {
  rules.batch_spans = 3, rules.delay = 1h;
  open();
  for (const char* span : {"a", "b", "c", "d"}) put(span);
  desk.wait_for(1);
  stop();
  EXPECT_EQ(desk.got, (std::vector<std::string>{"abc", "d"}));
  EXPECT_EQ(count("exported"), "4");
  EXPECT_EQ(count("dropped"), "0");
}

TEST_F(Exporting, ABatchThatIsNotFullGoesWhenItIsOldEnough) {
  rules.delay = 1ms;
  open();
  put("a");
  desk.wait_for(1);
  stop();
  EXPECT_EQ(desk.got, std::vector<std::string>{"a"});
}

TEST_F(Exporting, WhatMayBeTriedAgainIsTheSameBatch) {
  rules.delay = 0s;
  desk.answers = {
      {Fate::kTryAgain, -1ns, 0, "away"}, {Fate::kTryAgain, 1ms, 0, "busy"}, {Fate::kTaken, -1ns, 1, "one is bad"}};
  open();
  put("ab", 2);
  desk.wait_for(3);
  stop();
  EXPECT_EQ(desk.got, (std::vector<std::string>{"ab", "ab", "ab"}));
  EXPECT_EQ(count("exported"), "1");
  EXPECT_EQ(count("rejected"), "1");
}

TEST_F(Exporting, WhatIsRefusedIsDroppedAndTheNextOneGoes) {
  rules.delay = 0s;
  desk.answers = {{Fate::kRefused, -1ns, 0, "it answered 400"}};
  open();
  put("a");
  desk.wait_for(1);
  put("b");
  desk.wait_for(2);
  stop();
  EXPECT_EQ(count("exported"), "1");
  EXPECT_EQ(count("dropped"), "1");
}

TEST_F(Exporting, AnExceptionIsAFailureLikeAnother) {
  rules.delay = 0s;
  int posts = 0;
  exporter = std::make_unique<SpanExporter>(
      [&](std::string spans) {
        if (posts++ == 0) throw std::bad_alloc();
        return desk.post(std::move(spans));
      },
      rules, metrics);
  put("a");
  desk.wait_for(1);
  stop();
  EXPECT_EQ(count("exported"), "1");
}

// Nobody waits for a collector that is silent: not the shards, and not the end of the server.
TEST_F(Exporting, ASilentCollectorCostsABoundedMemoryAndHoldsNobodyUp) {
  rules.delay = 0s, rules.most_waiting = 1000, rules.batch_spans = 4;
  desk.silent = true;
  open();
  put(std::string(100, 'a'));
  desk.wait_for(1);
  for (int i = 0; i < 100; ++i) put(std::string(100, 'b'));
  EXPECT_EQ(count("dropped"), "91");
  stop(0s);
  EXPECT_TRUE(desk.cut);
  EXPECT_EQ(desk.got.size(), 1u);
  EXPECT_EQ(count("exported"), "1") << "the one that was cut off has been answered in this test";
  EXPECT_EQ(count("dropped"), "100");
}

TEST_F(Exporting, ACollectorThatStaysAwayIsGivenUpForABatch) {
  rules.delay = 0s, rules.give_up = 0s;
  desk.answers = {{Fate::kTryAgain, -1ns, 0, "away"}};
  open();
  put("a");
  desk.wait_for(1);
  put("b");
  desk.wait_for(2);
  stop();
  EXPECT_EQ(count("dropped"), "1");
  EXPECT_EQ(count("exported"), "1");
}

TEST_F(Exporting, TheEndDoesNotWaitForAPauseThatIsLongerThanItsTime) {
  rules.delay = 0s;
  desk.answers = {{Fate::kTryAgain, 1h, 0, "busy"}};
  rules.give_up = 2h;
  open();
  put("a");
  desk.wait_for(1);
  stop(10s);
  EXPECT_EQ(desk.got.size(), 1u);
  EXPECT_FALSE(desk.cut);
  EXPECT_EQ(count("dropped"), "1");
}

TEST_F(Exporting, TheEndTriesOnceMoreWhatWasPausing) {
  rules.delay = 0s, rules.first_pause = 1h, rules.longest_pause = 1h, rules.give_up = 2h;
  desk.answers = {{Fate::kTryAgain, -1ns, 0, "away"}};
  open();
  put("a");
  desk.wait_for(1);
  stop();
  EXPECT_EQ(desk.got.size(), 2u);
  EXPECT_EQ(count("exported"), "1");
}

TEST_F(Exporting, WhatComesAfterTheEndIsDropped) {
  open();
  stop();
  put("a", 5);
  EXPECT_EQ(count("dropped"), "5");
  EXPECT_TRUE(desk.got.empty());
}

}  // namespace
}  // namespace weir::ops
