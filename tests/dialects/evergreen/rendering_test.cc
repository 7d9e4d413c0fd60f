// A chat template that makes much of little has a turn of its own at the workers, and all that it makes is charged.
#include "base/extra_work.h"
#include "bench.h"
#include "support/held_workers.h"
#include "text/rendering_budget.h"

namespace weir::evergreen {
namespace {

constexpr uint64_t kLedger = uint64_t(64) << 20;

struct Renderings {
  explicit Renderings(uint32_t max_length) {
    t.bus.set_worker_pool(workers);
    t.rpc.slabs.memory = &memory;
    auto processor = std::make_shared<text::Processor>();
    processor->tokenizer = bytes_tokenizer();
    processor->chat = *jinja::Template::parse("{{ 'x' * (messages[0]['content'] | int) }}");
    auto& served = *t.catalog->models["chat"].versions["1"];
    auto wide = std::make_shared<msg::TextSpec>(*served.spec.text);
    wide->max_length = max_length, wide->codec = processor;
    served.spec.text = wide;
  }
  // A prompt of so many bytes.
  Bench::Opened ask(size_t bytes) {
    auto x = t.open();
    t.send(*x, generate("p", "r") + text_leaf("p", std::to_string(bytes)));
    return x;
  }
  // The workers' turn, which was asked for with so much extra work.
  void work(uint64_t extra) {
    ASSERT_EQ(workers.held.size(), 1u);
    EXPECT_EQ(dynamic_cast<base::ExtraWork&>(*workers.held[0]->task).extra_work(), extra);
    workers.work();
  }
  uint64_t charged() const { return memory.held(base::MemoryKind::kDecoding); }

  base::MemoryLedger memory{kLedger};
  support::HeldWorkers workers;
  Bench t;
};

TEST(EvergreenRenderings, AreChargedUntilTheyAreTheActions) {
  Renderings r(100'000);
  auto x = r.ask(90'000);
  r.work(0);
  EXPECT_GE(r.charged(), 90'000u);
  EXPECT_LT(r.charged(), 120'000u) << "the text alone";
  r.t.turn();
  EXPECT_EQ(r.charged(), 0u);
  EXPECT_EQ(r.t.prompt(), std::string(90'000, 'x'));
}

TEST(EvergreenRenderings, OfAnyLengthHaveATurnAmongTheForms) {
  Renderings r(1'000'000);
  auto x = r.ask(600'000);
  r.work(0);
  EXPECT_EQ(r.charged(), 0u) << "it was given up early";
  r.t.turn();
  r.work(text::kRenderingWork);
  EXPECT_GE(r.charged(), 600'000u);
  r.t.turn();
  EXPECT_EQ(r.charged(), 0u);
  EXPECT_EQ(r.t.prompt().size(), 600'000u);
}

TEST(EvergreenRenderings, WithoutRoomFailTheAction) {
  Renderings r(1'000'000);
  r.memory.add(base::MemoryKind::kSlabs, kLedger - (uint64_t(2) << 20));
  auto x = r.ask(8'000'000);
  r.work(0), r.t.turn();
  r.work(text::kRenderingWork), r.t.turn();
  EXPECT_NE(r.t.status(*x).find("there is no memory for the prompt"), std::string::npos) << r.t.status(*x);
  EXPECT_EQ(r.charged(), 0u);
}

TEST(EvergreenRenderings, ThatFitNoContextAreNotEncoded) {
  Renderings r(100'000);
  auto x = r.ask(30'000'000);
  r.work(0), r.t.turn();
  r.work(text::kRenderingWork);
  EXPECT_EQ(r.charged(), 0u);
  r.t.turn();
  EXPECT_EQ(r.t.status(*x), "INVALID_ARGUMENT: action GENERATE: the prompt is too long for the model");
}

TEST(EvergreenRenderings, OfAClientThatLeftAreChargedToNobody) {
  Renderings r(100'000);
  auto before = r.ask(600'000);
  r.work(0), r.t.turn();
  before.reset();
  r.work(text::kRenderingWork);
  r.t.turn();
  EXPECT_EQ(r.charged(), 0u);
  EXPECT_TRUE(r.t.chat->held.empty());
}

}  // namespace
}  // namespace weir::evergreen
