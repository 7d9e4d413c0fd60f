// Memory is short: what there is no room for fails alone, and the model goes on.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "base/memory_ledger.h"
#include "process_lab.h"

namespace weir::process {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// Slabs come from the heap, and are charged.
struct Budget final : base::SlabSource {
  explicit Budget(uint64_t bytes) : all(bytes) {}
  base::Slab* take(size_t) override { return nullptr; }
  base::MemoryLedger* ledger() override { return &all; }
  // Leaves so many bytes of it.
  void leave(uint64_t bytes) {
    rest.clear();
    EXPECT_TRUE(rest.grow(all.budget() - all.held() - bytes));
  }

  base::MemoryLedger all;
  base::MemoryCharge rest{all, base::MemoryKind::kInput};
};

// Answers once, by a thread of its own, after `before`.
struct OneAnswer final : msg::Inbox {
  OneAnswer() {
    spec.name = "other", spec.max_batch = 4;
    msg::TensorSpec x;
    x.name = "x", x.dtype = msg::DType::kFp32, x.shape = {-1};
    spec.inputs = {x};
  }
  ~OneAnswer() override {
    if (thread.joinable()) thread.join();
  }
  void put(msg::Call* call) override {
    if (thread.joinable()) thread.join();
    thread = std::thread([this, call] {
      before();
      std::vector<msg::Mail> burst;
      burst.push_back({call, {msg::Outputs{{floats({1, 2}, {1, 2})}, {}, true}}});
      call->home->post(burst);
    });
  }
  void poke() override {}
  std::function<void()> before;
  msg::ModelSpec spec;
  std::thread thread;
};

struct ShortageTest : ProcessTest {
  Loaded model(const std::string& what) {
    msg::ModelSpec wanted;
    wanted.name = "m", wanted.version = "1";
    wanted.parameters = {{"command", CHILD_PROGRAM + (" " + what)}, {"process_timeout", "5s"}};
    Place place{budget, [this](Status status) { broken(std::move(status)); }};
    place.find = find, place.rest = rest;
    auto loaded = process::load(wanted, "", place);
    EXPECT_TRUE(loaded) << (loaded ? "" : text_of(loaded.error()));
    return loaded ? std::move(*loaded) : Loaded();
  }
  // The outcome of a call with a tensor of so many bytes.
  std::string outcome_of(sched::Engine& engine, uint64_t bytes, uint32_t rows = 1) {
    const size_t n = bytes / sizeof(float);
    msg::Call call;
    call.inputs = {floats(std::vector<float>(n), {rows, int64_t(n / rows)})};
    call.rows = rows;
    batch = {};
    batch.calls = {&call}, batch.rows = rows;
    if (Status status = engine.step(batch); !status.ok()) return text_of(status);
    return batch.answers.empty() || batch.answers[0] ? "" : text_of(batch.answers[0].error());
  }
  // The end of a stream that begins with a tensor of so many bytes; the rest is not waited for.
  std::string end_of_stream(sched::DecoupledEngine& engine, uint64_t bytes = 2 * sizeof(float)) {
    const size_t n = bytes / sizeof(float);
    msg::Call call;
    call.inputs = {floats(std::vector<float>(n), {int64_t(n)})};
    auto series = engine.begin(call);
    if (!series) return text_of(series.error());
    const auto until = std::chrono::steady_clock::now() + 20s;
    for (int answers = 0; std::chrono::steady_clock::now() < until && answers < 20;) {
      auto due = (*series)->next_in();
      if (!due) return "";
      if (*due == sched::AnswerSeries::kNotYet) {
        std::this_thread::sleep_for(1ms);
        continue;
      }
      if (auto next = (*series)->next(); !next) return text_of(next.error());
      ++answers;
    }
    return std::chrono::steady_clock::now() < until ? "" : "the test has waited too long";
  }

  std::chrono::milliseconds rest = 10s;
  Budget budget{64 * kMiB};
  OneAnswer other;
};

TEST_F(ShortageTest, AnAnswerForWhichNoMemoryCanBeSharedFailsItsCall) {
  auto loaded = model("");
  auto& engine = *std::get<0>(loaded);
  for (int i = 0; i < 2; ++i) {
    budget.leave(kMiB);
    // It fits into the input region and not, with what the child adds to it, into the output region.
    EXPECT_EQ(0u, outcome_of(engine, kMiB - 1024)
                      .find("RESOURCE_EXHAUSTED: no memory to share with a model's process: memory is short"));
    EXPECT_EQ("", outcome_of(engine, 64));
  }
  budget.rest.clear();
  EXPECT_EQ("", outcome_of(engine, kMiB - 1024));
  EXPECT_TRUE(broken.why.empty());
}

// It is kept for the next batch, and not an idle slab: those are given back where memory is short.
TEST_F(ShortageTest, MemoryThatIsSharedHasAKindOfItsOwnAndIsGivenBack) {
  rest = 20ms;
  auto loaded = model(""), streams = model("stream");
  auto held = [this] { return budget.all.held(base::MemoryKind::kProcesses); };
  const uint64_t first = 4 * kMiB;  // two of each
  EXPECT_EQ(first, held());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ("", outcome_of(*std::get<0>(loaded), 8 * kMiB));
    EXPECT_EQ("", end_of_stream(*std::get<1>(streams), 8 * kMiB));
    for (int patience = 10'000; held() > first && patience > 0; --patience) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(first, held());
    EXPECT_EQ("", outcome_of(*std::get<0>(loaded), 64));
    EXPECT_EQ("", end_of_stream(*std::get<1>(streams), 64));
  }
  EXPECT_EQ(0u, budget.all.held(base::MemoryKind::kSlabs));
  EXPECT_TRUE(broken.why.empty());
}

TEST_F(ShortageTest, AnAnswerOfAnIsolatedEngineFailsAlone) {
  msg::ModelSpec wanted;
  wanted.name = "m", wanted.version = "1", wanted.engine = "adding";
  Place place{budget, [this](Status status) { broken(std::move(status)); }};
  place.options.engine_command = {ENGINE_CHILD_PROGRAM};
  auto loaded = load_isolated(wanted, "", place);
  ASSERT_TRUE(loaded) << text_of(loaded.error());
  budget.leave(kMiB);
  // The engine has more outputs than inputs.
  EXPECT_EQ(0u, outcome_of(**loaded, kMiB - 4096, 512)
                    .find("RESOURCE_EXHAUSTED: no memory to share with a model's process: memory is short"));
  budget.rest.clear();
  EXPECT_EQ("", outcome_of(**loaded, kMiB - 4096, 512));
  EXPECT_TRUE(broken.why.empty());
}

TEST_F(ShortageTest, AnAnswerThatCannotBeCopiedEndsItsStream) {
  auto loaded = model("stream");
  auto& engine = *std::get<1>(loaded);
  EXPECT_EQ("", end_of_stream(engine));
  for (int i = 0; i < 3; ++i) {
    budget.leave(0);
    EXPECT_EQ("RESOURCE_EXHAUSTED: out of memory; try again later", end_of_stream(engine));
    budget.rest.clear();
    EXPECT_EQ("", end_of_stream(engine));
  }
  EXPECT_TRUE(broken.why.empty());
}

// The child is told so: it goes on, and answers.
TEST_F(ShortageTest, ARequestOfAModelThatCannotBeReadOrAnsweredFailsAlone) {
  int asked = 0;
  find = [&](std::string_view, std::string_view) -> base::Result<Target> {
    ++asked;
    return Target{nullptr, &other.spec, &other};
  };
  auto loaded = model("ask");
  auto& engine = *std::get<0>(loaded);
  other.before = [] {};
  EXPECT_EQ("", outcome_of(engine, 4096));
  other.before = [this] { budget.leave(0); };
  EXPECT_EQ("RESOURCE_EXHAUSTED: out of memory; try again later", outcome_of(engine, 4096)) << "its own answer";
  EXPECT_EQ(2, asked);
  budget.leave(0);
  EXPECT_EQ("RESOURCE_EXHAUSTED: out of memory; try again later", outcome_of(engine, 4096));
  EXPECT_EQ(2, asked) << "the request could not be read";
  budget.rest.clear(), other.before = [] {};
  EXPECT_EQ("", outcome_of(engine, 4096));
  EXPECT_TRUE(broken.why.empty());
}

}  // namespace
}  // namespace weir::process
