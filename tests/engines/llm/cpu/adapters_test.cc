// LoRA adapters: base and adapter against the reference's merged model (adapters.py), and against themselves in other
// company.
#include <atomic>
#include <thread>

#include "adapted_models.h"

namespace weir::llm {
namespace {

using Names = std::vector<std::string>;

std::unique_ptr<Transformer> with_adapters(const std::string& name, WeightFormat form, const Names& adapters,
                                           const Kernels& with = kernels(), Keep keep = Keep::kAsStored) {
  auto team = std::make_unique<ThreadTeam>(2);
  Model model = load_model(adapted_models() + "/" + name, form, *team, keep);
  auto folder = Folder::open(adapted_models() + "/" + name);
  for (const auto& each : adapters) {
    auto adapter = Adapter::open(*folder, "adapters/" + each, model.shape);
    EXPECT_TRUE(bool(adapter)) << adapter.error().text;
    auto weights = load_adapter(*adapter, model, *team);
    EXPECT_TRUE(bool(weights)) << weights.error().text;
    EXPECT_GT(weights->bytes(), 0u);
    model.adapters.push_back(std::move(*weights));
  }
  auto out = std::make_unique<Transformer>(std::move(model), with, std::move(team), 512);
  EXPECT_TRUE(out->reserve(256, 16).ok());
  return out;
}

Expected merged(const std::string& name, const std::string& adapter) {
  return Expected(adapted_models() + "/" + name + "/" + adapter + ".safetensors");
}

// A sequence of an adapter; 0: of the base.
struct Tenant {
  uint32_t adapter;
  Sequence s;
  std::vector<float> logits{};
};

void feed(Stepper& stepper, Tenant& tenant, uint32_t count) {
  stepper.add(tenant.s, count, LogitsOf::kAll);
  stepper.step.rows.back().adapter = tenant.adapter;
}

std::vector<float> alone(Transformer& engine, uint32_t adapter, const std::vector<uint32_t>& ids) {
  Stepper stepper(engine);
  Tenant tenant{adapter, {ids, {}}};
  feed(stepper, tenant, uint32_t(ids.size()));
  return stepper.run();
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class LlmAdapters : public testing::Test {
 protected:
  void SetUp() override {
    if (adapted_models().empty()) GTEST_SKIP() << "no python3-torch here";
  }
};

void expect_merged(const std::string& name, WeightFormat form, const Names& adapters, double tolerance,
                   const Kernels& with = kernels(), Keep keep = Keep::kAsStored) {
  auto engine = with_adapters(name, form, adapters, with, keep);
  for (uint32_t i = 0; i < adapters.size(); ++i) {
    const Expected expected = merged(name, adapters[i]);
    EXPECT_LT(worst(alone(*engine, i + 1, expected.ids()), expected.floats("logits"), engine->text().vocabulary),
              tolerance)
        << name << " " << adapters[i] << " with " << with.name;
  }
}

const Names kAll{"odd", "pattern", "thin", "whole"};

TEST_F(LlmAdapters, LogitsAreThoseOfTheMergedModel) {
  for (auto* name : {"llama", "bias"}) expect_merged(name, WeightFormat::kF32, kAll, 1e-4);
  for (auto* name : {"qwen3", "gemma2", "olmo2", "granite", "phi3", "mixtral"})
    expect_merged(name, WeightFormat::kF32, {"whole"}, 1e-4);
  expect_merged("llama_bf16", WeightFormat::kBf16, kAll, 3e-2);
}

TEST_F(LlmAdapters, EveryInstructionSetHasThem) {
  for (auto* isa : {"portable", "avx2", "avx512", "avx512_bf16"}) {
    auto* with = kernels(isa);
    if (!with) continue;
    expect_merged("bias", WeightFormat::kF32, kAll, 1e-4, *with);
    expect_merged("llama_bf16", WeightFormat::kBf16, kAll, 3e-2, *with);
  }
}

// They are applied beside weights that are kept in codes, which are not touched.
TEST_F(LlmAdapters, QuantizedWeightsHaveThemBeside) {
  expect_merged("llama_bf16", WeightFormat::kBf16, kAll, 6e-2, kernels(), Keep::kInt8);
  auto plain = with_adapters("llama_bf16", WeightFormat::kBf16, {}, kernels(), Keep::kInt4);
  auto engine = with_adapters("llama_bf16", WeightFormat::kBf16, kAll, kernels(), Keep::kInt4);
  const auto ids = merged("llama_bf16", "whole").ids();
  EXPECT_TRUE(same_bits(alone(*engine, 0, ids), alone(*plain, 0, ids)));
}

// Rows of the base, of the four adapters and of the base again, in chunks: each as it is alone, and those of the base
// as without adapters.
TEST_F(LlmAdapters, ARowHasItsOwnAdapterInAnyCompany) {
  for (auto [name, form, names] :
       {std::tuple("llama", WeightFormat::kF32, kAll), std::tuple("llama_bf16", WeightFormat::kBf16, kAll),
        std::tuple("bias", WeightFormat::kBf16, kAll), std::tuple("gemma2", WeightFormat::kF32, Names{"whole"})}) {
    const auto ids = merged(name, "whole").ids();
    auto plain = with_adapters(name, form, {}), engine = with_adapters(name, form, names);
    const auto n = uint32_t(ids.size());
    std::vector<std::vector<float>> expected{alone(*plain, 0, ids)};
    for (uint32_t a = 1; a <= names.size(); ++a) expected.push_back(alone(*engine, a, ids));
    EXPECT_TRUE(same_bits(alone(*engine, 0, ids), expected[0])) << name;
    for (uint32_t chunk : {1u, 7u, 50u}) {
      std::vector<Tenant> tenants;
      for (uint32_t a : {0u, 1u, 2u, 1u, 0u, 3u, 4u, 2u}) tenants.push_back({uint32_t(a % expected.size()), {ids, {}}});
      Stepper stepper(*engine);
      while (tenants[0].s.stored < n) {
        const uint32_t count = std::min(chunk, n - tenants[0].s.stored);
        for (auto& tenant : tenants) feed(stepper, tenant, count);
        const auto logits = stepper.run();
        const size_t each = logits.size() / tenants.size();
        for (size_t t = 0; t < tenants.size(); ++t)
          tenants[t].logits.insert(tenants[t].logits.end(), logits.begin() + ptrdiff_t(t * each),
                                   logits.begin() + ptrdiff_t((t + 1) * each));
      }
      for (auto& tenant : tenants)
        EXPECT_TRUE(same_bits(tenant.logits, expected[tenant.adapter]))
            << name << " " << tenant.adapter << " " << chunk;
    }
  }
}

TEST_F(LlmAdapters, AStepThatNamesOneThatThereIsNotFails) {
  auto engine = with_adapters("llama", WeightFormat::kF32, {"thin"});
  Stepper stepper(*engine);
  Tenant tenant{2, {{7, 8, 9}, {}}};
  feed(stepper, tenant, 3);
  EXPECT_EQ(engine->adapters(), 1u);
  EXPECT_EQ(engine->step(stepper.step).text, "a step's adapter does not exist");
}

base::Result<msg::AdapterLoader::Loaded> load_late(Transformer& engine, const std::string& name, uint32_t number,
                                                   const std::string& path = "llama") {
  return engine.adapter_loader()->load({name, adapted_models() + "/" + path, "adapters/" + name, number});
}

TEST_F(LlmAdapters, OneThatComesLaterIsWhatItIsFromTheStart) {
  auto engine = with_adapters("llama", WeightFormat::kF32, {"thin"}),
       known = with_adapters("llama", WeightFormat::kF32, kAll);
  const auto ids = merged("llama", "whole").ids();
  const auto base = alone(*known, 0, ids);
  const uint32_t first = msg::kFirstLoadedAdapter;
  auto odd = load_late(*engine, "odd", first), whole = load_late(*engine, "whole", first + 7);
  ASSERT_TRUE(odd && whole);
  EXPECT_EQ(engine->adapter_loader()->bytes(), odd->bytes + whole->bytes);
  EXPECT_TRUE(engine->adapter_loader()->has(first) && !engine->adapter_loader()->has(first + 1));
  EXPECT_TRUE(same_bits(alone(*engine, first, ids), alone(*known, 1, ids)));
  EXPECT_TRUE(same_bits(alone(*engine, first + 7, ids), alone(*known, 4, ids)));
  EXPECT_TRUE(same_bits(alone(*engine, 1, ids), alone(*known, 3, ids)));
  EXPECT_TRUE(same_bits(alone(*engine, 0, ids), base));
  whole->keep.reset();
  EXPECT_EQ(engine->adapter_loader()->bytes(), odd->bytes);
  Stepper stepper(*engine);
  Tenant gone{first + 7, {{7, 8, 9}, {}}};
  feed(stepper, gone, 3);
  EXPECT_EQ(engine->step(stepper.step).text, "a step's adapter does not exist");
  EXPECT_TRUE(same_bits(alone(*engine, first, ids), alone(*known, 1, ids)));
  odd->keep.reset();
  EXPECT_EQ(engine->adapter_loader()->bytes(), 0u);
  EXPECT_TRUE(same_bits(alone(*engine, 0, ids), base));
}

TEST_F(LlmAdapters, OthersComeAndGoWhileStepsRun) {
  auto engine = with_adapters("llama", WeightFormat::kF32, {});
  const auto ids = merged("llama", "thin").ids();
  const uint32_t first = msg::kFirstLoadedAdapter;
  auto thin = load_late(*engine, "thin", first);
  ASSERT_TRUE(bool(thin));
  const auto expected = alone(*engine, first, ids);
  std::atomic<bool> over{false};
  std::thread loads([&] {
    for (uint32_t i = 1; !over; ++i) {
      auto other = load_late(*engine, i % 2 ? "whole" : "pattern", first + i);
      EXPECT_TRUE(bool(other)) << other.error().text;
    }
  });
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(same_bits(alone(*engine, first, ids), expected)) << i;
  over = true;
  loads.join();
}

TEST_F(LlmAdapters, ALateOneThatIsWrongChangesNothing) {
  auto engine = with_adapters("llama", WeightFormat::kF32, {});
  const uint32_t first = msg::kFirstLoadedAdapter;
  EXPECT_EQ(load_late(*engine, "nothing", first).error().code, base::Code::kNotFound);
  EXPECT_EQ(load_late(*engine, "whole", first, "qwen3").error().code, base::Code::kInvalidArgument) << "another shape";
  EXPECT_EQ(load_late(*engine, "../../llama/adapters/whole", first).error().code, base::Code::kInvalidArgument);
  EXPECT_EQ(load_late(*engine, "thin", 3).error().code, base::Code::kInternal) << "a number of those from the start";
  EXPECT_EQ(engine->adapter_loader()->bytes(), 0u);
  EXPECT_FALSE(engine->adapter_loader()->has(first));
}

// With the model's own weights, and what has been loaded beside them.
TEST_F(LlmAdapters, TheyTakeMemoryBesideTheModel) {
  ThreadTeam team(1);
  const std::string path = adapted_models() + "/llama";
  Model model = load_model(path, WeightFormat::kF32, team);
  auto adapter = Adapter::open(*Folder::open(path), "adapters/whole", model.shape);
  ASSERT_TRUE(bool(adapter)) << adapter.error().text;
  const uint64_t base = model.weight_bytes();
  EXPECT_GT(base, uint64_t(model.shape.vocabulary) * model.shape.hidden * sizeof(float));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(load_adapter(*adapter, model, team, base).error().code, base::Code::kResourceExhausted);
    auto weights = load_adapter(*adapter, model, team, 2 * base + 1'000'000);
    ASSERT_TRUE(bool(weights)) << weights.error().text;
    const uint64_t all = model.weight_bytes() + weights->bytes();
    EXPECT_EQ(load_adapter(*adapter, model, team, all).error().code, base::Code::kResourceExhausted);
    EXPECT_TRUE(bool(load_adapter(*adapter, model, team, all + 1'000'000)));
    model.adapters.push_back(std::move(*weights));
  }
}

}  // namespace
}  // namespace weir::llm
