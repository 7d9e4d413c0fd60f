#include "dialects/ops/kept_page.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/fake_env.h"
#include "base/memory_ledger.h"
#include "dialects/ops/pages.h"

namespace weir::ops {
namespace {

// An exchange whose client does not read: it keeps its answer, and charges a ledger.
struct SlowExchange final : wire::Exchange {
  explicit SlowExchange(base::MemoryLedger& l, std::string_view accepts = {}) : ledger(l) {
    static const wire::PeerInfo kPeer{"127.0.0.1:5000", wire::Security::kCleartext};
    request_.method = "GET", request_.target = "/metrics", request_.peer = &kPeer;
    if (!accepts.empty()) request_.fields.add("accept-encoding", accepts);
  }
  base::MemoryLedger* memory() override { return &ledger; }
  void head(wire::Response r) override { response = std::move(r); }
  void body(base::Bytes bytes) override { kept.push_back(std::move(bytes)); }
  void end(wire::Fields) override {}
  void reset(wire::Reset) override {}
  bool responding() const override { return response.status != 0; }
  size_t backlog() const override { return 0; }
  void consume(size_t) override {}
  void expect(size_t) override {}
  base::Time now() const override { return {}; }

  base::MemoryLedger& ledger;
  wire::Response response;
  std::vector<base::Bytes> kept;
};

TEST(KeptPage, IsChargedOnceForAllItsAnswers) {
  base::MemoryLedger ledger(1 << 20);
  KeptPage page(std::string(100'000, 'x'));
  std::deque<SlowExchange> readers;
  for (int i = 0; i < 100; ++i) page.respond(readers.emplace_back(ledger), {});
  EXPECT_EQ(ledger.held(), 100'000U);
  EXPECT_EQ(readers.back().kept.at(0).data(), readers.front().kept.at(0).data());
  page = KeptPage("another");
  EXPECT_EQ(ledger.held(), 100'000U) << "its readers still have it";
  readers.clear();
  EXPECT_EQ(ledger.held(), 0U);
}

TEST(KeptPage, IsCodedOnce) {
  base::MemoryLedger ledger(1 << 20);
  KeptPage page(std::string(100'000, 'x'));
  SlowExchange first(ledger, "gzip"), second(ledger, "gzip"), plain(ledger);
  for (auto* x : {&first, &second, &plain}) page.respond(*x, {}, "accept");
  EXPECT_EQ(first.response.fields.find("content-encoding"), "gzip");
  EXPECT_EQ(first.response.fields.find("vary"), "accept, accept-encoding");
  EXPECT_EQ(first.kept.at(0).data(), second.kept.at(0).data());
  EXPECT_FALSE(plain.response.fields.has("content-encoding"));
  EXPECT_EQ(plain.kept.at(0).size(), 100'000U);
}

TEST(KeptPage, IsPreparedInACodingByWhoeverHasTimeForIt) {
  base::MemoryLedger ledger(1 << 20);
  KeptPage page(std::string(100'000, 'x'));
  SlowExchange first(ledger, "br, gzip"), second(ledger, "gzip");
  page.prepare(KeptPage::coding_for(first), &ledger);
  KeptPage copy = page;
  page.respond(first, {}), copy.respond(second, {});
  EXPECT_EQ(first.response.fields.find("content-encoding"), "gzip");
  EXPECT_EQ(first.kept.at(0).data(), second.kept.at(0).data()) << "respond() had nothing to make";
}

// Else it would write what a worker reads, who adds another coding to the same page.
TEST(KeptPage, IsLeftAloneByTheAnswerOnceItIsPrepared) {
  base::MemoryLedger ledger(1 << 20);
  KeptPage page(std::string(100'000, 'x'));
  page.prepare(wire::Coding::kIdentity, &ledger);
  EXPECT_EQ(ledger.held(), 100'000U);
  const base::Slab* made = page.plain().slab();
  SlowExchange reader(ledger);
  page.respond(reader, {});
  EXPECT_EQ(page.plain().slab(), made);
  EXPECT_EQ(ledger.held(), 100'000U);
}

// Runs a task, and tells of it, when a test says so.
struct StepOffload final : wire::Offload {
  base::Result<std::unique_ptr<wire::SentTask>> send(std::unique_ptr<base::OffloadTask> task, size_t, Part,
                                                     wire::Exchange&, Done told) override {
    sent.push_back({std::move(task), std::move(told)});
    return std::make_unique<wire::SentTask>();
  }
  struct Sent {
    std::unique_ptr<base::OffloadTask> task;
    Done told;
  };
  std::deque<Sent> sent;
};

// The second thread is for builds that look for races.
TEST(Scrapes, OneIsAnsweredWhileTheTextIsCompressedForAnother) {
  base::MemoryLedger ledger(1 << 20);
  base::FakeEnv env;
  base::Metrics metrics;
  metrics.collect([](std::string& out) {  // hardly smaller when it is compressed
    for (uint64_t i = 1; i < 8000; ++i) out += "weir_x " + std::to_string(i * 0x9e3779b97f4a7c15) + "\n";
  });
  wire::Router router{env};
  StepOffload offload;
  Pages pages{router, metrics, offload, {}};
  SlowExchange first(ledger, "gzip"), second(ledger, "gzip");
  (void)router.begin(first), (void)router.begin(second);
  ASSERT_EQ(offload.sent.size(), 2U);
  offload.sent[0].task->run();
  const uint64_t held = ledger.held();
  EXPECT_GT(held, 0U) << "the answer has nothing to write";
  std::thread worker([&] { offload.sent[1].task->run(); });
  offload.sent[0].told({}, std::move(offload.sent[0].task));
  worker.join();
  offload.sent[1].told({}, std::move(offload.sent[1].task));
  EXPECT_EQ(ledger.held(), held);
  EXPECT_EQ(first.response.fields.find("content-encoding"), "gzip");
  EXPECT_EQ(first.kept.at(0).data(), second.kept.at(0).data());
  router.closed(first), router.closed(second);
}

}  // namespace
}  // namespace weir::ops
