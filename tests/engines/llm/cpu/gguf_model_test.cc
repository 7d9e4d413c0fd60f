// Models from GGUF files (gguf_models.py) beside the same numbers in Hugging Face folders.
#include "engines/llm/load/gguf_blocks.h"
#include "support.h"

namespace weir::llm {
namespace {

const std::string& gguf_models() {
  static const MadeFolder made("gguf_models.py");
  return made.path;
}

constexpr const char* kTypes[] = {"f32",  "f16",  "bf16", "q8_0", "q4_0", "q4_1",   "q5_0",   "q5_1",
                                  "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4"};
constexpr const char* kFamilies[] = {"tied",       "bias",         "mistral",      "qwen2",     "qwen3",
                                     "mixed",      "mixtral",      "qwen2_moe",    "qwen3_moe", "gemma2",
                                     "gemma3",     "gemma3_types", "gemma3_coded", "phi3",      "phi3_long",
                                     "phi3_short", "phi3_coded",   "granite",      "olmo2",     "olmo3",
                                     "smollm3",    "gemma",        "granitemoe",   "gpt_oss",   "gpt_oss_mxfp4"};
constexpr const char* kInstructions[] = {"portable", "avx2", "avx512", "avx512_bf16"};

class GgufModels : public testing::Test {
 protected:
  void SetUp() override {
    if (gguf_models().empty()) GTEST_SKIP() << "no python3-torch here";
  }
  static std::string folder(const std::string& name) { return gguf_models() + "/" + name; }
  static Expected expected(const std::string& name) { return Expected(folder(name) + "/expected.safetensors"); }
  static std::unique_ptr<Transformer> make(const std::string& name, WeightFormat form, Keep keep,
                                           const Kernels& with = kernels(), const std::string& file = "model.gguf") {
    auto team = std::make_unique<ThreadTeam>(2);
    Model model = load_gguf(folder(name), file, form, *team, keep);
    auto out = std::make_unique<Transformer>(std::move(model), with, std::move(team), 512);
    EXPECT_TRUE(out->reserve(256, 16).ok());
    return out;
  }
  static std::vector<float> logits(Transformer& engine, const std::vector<uint32_t>& ids) {
    Stepper stepper(engine);
    Sequence s{ids, {}};
    stepper.add(s, uint32_t(ids.size()), LogitsOf::kAll);
    return stepper.run();
  }
};

TEST_F(GgufModels, InFloat32TheyAreTheFoldersToTheLastBit) {
  auto names = std::vector<std::string>(std::begin(kTypes), std::end(kTypes));
  names.insert(names.end(), std::begin(kFamilies), std::end(kFamilies));
  for (const auto& name : names) {
    const auto ids = expected(name).ids();
    auto theirs = make_transformer(folder(name), WeightFormat::kF32);
    auto ours = make(name, WeightFormat::kF32, Keep::kAsStored);
    const auto a = logits(*ours, ids), b = logits(*theirs, ids);
    EXPECT_LT(worst(a, expected(name).floats("logits"), ours->text().vocabulary), 1e-4) << name;
    // Llama 3.1's frequencies come as factors, which are rounded to float32 themselves.
    if (name == "tied")
      EXPECT_LT(worst(a, b, ours->text().vocabulary), 1e-5);
    else
      EXPECT_EQ(a, b) << name;
  }
}

struct Kept {
  const char* name;
  Coding coding;
  uint32_t group;
};
constexpr Kept kKept[] = {{"q8_0", Coding::kInt8, 32}, {"q5_0", Coding::kInt8, 32},   {"q6_k", Coding::kInt8, 16},
                          {"q4_0", Coding::kInt4, 32}, {"q3_k", Coding::kInt4, 16},   {"q4_1", Coding::kInt4, 32},
                          {"q4_k", Coding::kInt4, 32}, {"q2_k", Coding::kInt4, 16},   {"q5_1", Coding::kInt8, 32},
                          {"q5_k", Coding::kInt8, 32}, {"iq4_nl", Coding::kInt8, 32}, {"iq4_xs", Coding::kInt8, 32},
                          {"mxfp4", Coding::kInt8, 32}};

TEST_F(GgufModels, CodesStayCodes) {
  ThreadTeam team(2);
  for (const auto& [name, coding, group] : kKept) {
    const Model model = load_gguf(folder(name), "model.gguf", WeightFormat::kBf16, team);
    const Layer& layer = model.weights.layers[1];
    for (const Matrix* m : {&layer.qkv, &layer.out, &layer.gate_up, &layer.down}) {
      EXPECT_EQ(m->coding, coding) << name;
      EXPECT_EQ(2 * m->group_steps, group) << name;
    }
    EXPECT_EQ(model.weights.embedding.coding, Coding::kWhole);
  }
}

TEST_F(GgufModels, EveryTypeGivesTheLogitsOfItsNumbers) {
  for (auto* name : kTypes)
    for (auto* isa : kInstructions) {
      auto* with = kernels(isa);
      if (!with) continue;
      for (Keep keep : {Keep::kAsStored, Keep::kWhole}) {
        auto engine = make(name, WeightFormat::kBf16, keep, *with);
        EXPECT_LT(
            worst(logits(*engine, expected(name).ids()), expected(name).floats("logits"), engine->text().vocabulary),
            3e-2)
            << name << " with " << isa;
      }
    }
}

TEST_F(GgufModels, LogitsDoNotDependOnChunksOrCompany) {
  for (auto* name : {"q8_0", "q4_0", "q3_k", "q4_k", "q5_1", "q6_k", "iq4_xs", "mixed"}) {
    auto engine = make(name, WeightFormat::kBf16, Keep::kAsStored);
    for (uint32_t chunk : {1u, 3u, 17u}) expect_whole(*engine, expected(name).ids(), chunk, 0, name);
  }
}

TEST_F(GgufModels, TheUsualFormIsOfTheFile) {
  for (auto [name, form] : {std::pair("f32", WeightFormat::kF32), std::pair("f16", WeightFormat::kF32),
                            std::pair("bf16", WeightFormat::kBf16), std::pair("q4_k", WeightFormat::kBf16)}) {
    auto model = open_gguf(*Folder::open(folder(name)), "model.gguf");
    const Shape shape = parse_shape(config_of(model->gguf).value()).value();
    EXPECT_EQ(usual_form(shape, Store::open(std::move(*model)).value(), Keep::kAsStored), form) << name;
  }
}

TEST_F(GgufModels, OneThatIsSplitIsReadFromAnyOfItsParts) {
  const auto ids = expected("mixed").ids();
  auto whole = make("mixed", WeightFormat::kBf16, Keep::kAsStored);
  for (auto* file : {"split-00001-of-00002.gguf", "split-00002-of-00002.gguf"}) {
    auto parts = make("mixed", WeightFormat::kBf16, Keep::kAsStored, kernels(), file);
    EXPECT_EQ(logits(*parts, ids), logits(*whole, ids)) << file;
  }
  const std::filesystem::path other = folder("mixed") + "/other";
  std::filesystem::create_directories(other);
  auto copy = [&](const char* from, const char* to) {
    std::filesystem::copy_file(folder("mixed") + "/" + from, other / to,
                               std::filesystem::copy_options::overwrite_existing);
  };
  copy("split-00001-of-00002.gguf", "a-00001-of-00002.gguf");
  auto refused = [&](const char* file) { return open_gguf(*Folder::open(other), file).error().text; };
  EXPECT_EQ(refused("a-00001-of-00002.gguf"), "no file 'a-00002-of-00002.gguf'");
  copy("split-00001-of-00002.gguf", "a-00002-of-00002.gguf");
  EXPECT_EQ(refused("a-00001-of-00002.gguf"), "'a-00002-of-00002.gguf': GGUF: 'split.no' is not what its name says");
  copy("split-00001-of-00002.gguf", "renamed.gguf");
  EXPECT_NE(refused("renamed.gguf").find("'split.count' is 2: the parts of a model are called"), std::string::npos);
}

}  // namespace
}  // namespace weir::llm
