// All that a chat template makes at a worker is charged until it is gone: a request of a hundred bytes may ask for all
// of the server's memory.
#include "base/extra_work.h"
#include "bench.h"
#include "support/held_workers.h"
#include "text/rendering_budget.h"

namespace weir::openai {
namespace {

using base::MemoryKind;

constexpr uint64_t kMemory = uint64_t(64) << 20;

class Renderings : public OpenaiBench {
 protected:
  Renderings() {
    auto spec = support::text_spec("wide", 200'000);
    auto text = std::make_shared<msg::TextSpec>(*spec.text);
    auto processor = std::make_shared<text::Processor>(*support::byte_processor());
    processor->chat = *jinja::Template::parse("{{ 'x' * n }}");
    text->codec = processor;
    spec.text = text;
    models.add(spec);
    bus.publish(models.catalog);
    bus.set_worker_pool(workers);
    ledger = &memory;
  }
  Opened ask(std::string path, size_t bytes) {
    const Json body = {{"model", "wide"},
                       {"messages", {{{"role", "user"}, {"content", "hi"}}}},
                       {"chat_template_kwargs", {{"n", bytes}}}};
    return open("POST", std::move(path), body.dump());
  }
  // The next turn at the workers, which was asked for with so much extra work.
  void work(uint64_t extra) {
    ASSERT_EQ(workers.held.size(), 1u);
    EXPECT_EQ(dynamic_cast<base::ExtraWork&>(*workers.held[0]->task).extra_work(), extra);
    workers.work();
  }
  // The client takes all of the answer.
  static void read(const Opened& x) {
    for (int i = 0; i < 1000 && !x->ended && x->listener(); ++i) {
      x->fake_backlog = 0;
      x->listener()->on_drain(*x);
    }
    EXPECT_TRUE(x->ended);
  }
  uint64_t charged() const { return memory.held(MemoryKind::kDecoding); }

  base::MemoryLedger memory{kMemory};
  support::HeldWorkers workers;
};

TEST_F(Renderings, AreChargedUntilTheClientHasTheText) {
  auto x = ask("/apply-template", 4'000'000);
  x->reads = false;
  work(0);
  EXPECT_EQ(charged(), 0u) << "it was given up early";
  turn();
  work(text::kRenderingWork);
  EXPECT_GE(charged(), 4'000'000u);
  EXPECT_LT(charged(), 5'000'000u) << "the text alone";
  turn();
  EXPECT_EQ(x->response.status, 200);
  EXPECT_GE(charged(), 4'000'000u);
  read(x);
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(json(x), Json({{"prompt", std::string(4'000'000, 'x')}}));
}

TEST_F(Renderings, WithoutRoomAre503) {
  const uint64_t others = kMemory - (uint64_t(2) << 20);
  memory.add(MemoryKind::kSlabs, others);
  for (const char* path : {"/apply-template", "/v1/chat/completions", "/tokenize"}) {
    auto x = ask(path, 4'000'000);
    work(0), turn();
    work(text::kRenderingWork), turn();
    EXPECT_EQ(x->response.status, 503) << path << x->sent;
    EXPECT_NE(x->sent.find("there is no memory for the prompt"), std::string::npos);
    EXPECT_EQ(memory.held(), others);
  }
}

TEST_F(Renderings, OfAClientThatLeftAreChargedToNobody) {
  auto behind = ask("/apply-template", 4'000'000);
  work(0), turn();
  work(text::kRenderingWork);
  EXPECT_GE(charged(), 4'000'000u);
  behind.reset();
  turn();
  EXPECT_EQ(charged(), 0u);

  auto amid = ask("/apply-template", 4'000'000);
  amid->reads = false;
  work(0), turn();
  work(text::kRenderingWork), turn();
  EXPECT_GE(charged(), 4'000'000u);
  amid.reset();
  EXPECT_EQ(charged(), 0u);
}

TEST_F(Renderings, AreChargedNoMoreOnceTheyAreTokens) {
  auto x = ask("/v1/chat/completions", 100'000);
  work(0);
  EXPECT_EQ(charged(), 0u);
  turn();
  ASSERT_EQ(models["wide"].held.size(), 1u);
  EXPECT_EQ(support::prompt_of(*models["wide"].held[0]).size(), 100'000u);
}

TEST_F(Renderings, ThatFitNoContextAreRefusedAndChargedNoMore) {
  auto x = ask("/v1/chat/completions", 30'000'000);
  work(0), turn();
  work(text::kRenderingWork);
  EXPECT_EQ(charged(), 0u);
  turn();
  EXPECT_EQ(error(x), "400 invalid_request_error context_length_exceeded messages");
}

}  // namespace
}  // namespace weir::openai
