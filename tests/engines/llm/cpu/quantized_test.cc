// Weights that are kept in fewer bits, as a checkpoint has them (quantized.py) or made here.
#include "engines/llm/cpu/parameter_reader.h"
#include "support.h"

namespace weir::llm {
namespace {

constexpr const char* kInstructionSets[] = {"portable", "avx2", "avx512", "avx512_bf16"};

struct Checkpoint {
  const char* name;
  Coding coding;  // that its matrices have here
};
constexpr Checkpoint kCheckpoints[] = {
    {"gptq", Coding::kInt4},         {"gptq_zeros", Coding::kInt4},  {"gptq_v2", Coding::kInt4},
    {"gptq_mixed", Coding::kWhole},  {"gptq_8", Coding::kInt8},      {"gptq_8_zeros", Coding::kWhole},
    {"awq", Coding::kInt4},          {"packed", Coding::kInt4},      {"packed_odd", Coding::kInt4},
    {"packed_zeros", Coding::kInt4}, {"packed_8", Coding::kInt8},    {"int8", Coding::kInt8},
    {"fp8_blocks", Coding::kFp8},    {"fp8_channels", Coding::kFp8}, {"fp8_tensor", Coding::kFp8},
    {"gptq_fused", Coding::kInt4},
};

class Quantized : public testing::Test {
 protected:
  void SetUp() override {
    if (quantized().empty()) GTEST_SKIP() << "no python3-torch here";
  }
  static std::string folder(const std::string& name) { return quantized() + "/" + name; }
  static Expected expected(const std::string& name) { return Expected(folder(name) + "/expected.safetensors"); }
};

double off(const std::string& folder, const Expected& expected, WeightFormat form, Keep keep,
           const Kernels& with = kernels()) {
  auto engine = make_transformer(folder, form, 2, with, 16, KvFormat::kAsComputed, keep);
  Stepper stepper(*engine);
  Sequence s{expected.ids(), {}};
  stepper.add(s, uint32_t(s.ids.size()), LogitsOf::kAll);
  return worst(stepper.run(), expected.floats("logits"), engine->text().vocabulary);
}

TEST_F(Quantized, ACheckpointsNumbersAreThoseThatItsCodesStandFor) {
  for (const auto& [name, coding] : kCheckpoints)
    EXPECT_LT(off(folder(name), expected(name), WeightFormat::kF32, Keep::kWhole), 1e-4) << name;
}

TEST_F(Quantized, ExpertsOfMxfp4AreKeptInTheirCodes) {
  EXPECT_LT(off(folder("mxfp4"), expected("mxfp4"), WeightFormat::kF32, Keep::kWhole), 1e-4);
  ThreadTeam team(2);
  const Model model = load_model(folder("mxfp4"), WeightFormat::kBf16, team);
  for (const Layer& layer : model.weights.layers)
    for (const Matrix* m : {&layer.experts.gate_up, &layer.experts.down}) {
      EXPECT_EQ(m->coding, Coding::kInt8);
      EXPECT_EQ(2 * m->group_steps, 32u);
    }
  for (auto* isa : kInstructionSets) {
    auto* with = kernels(isa);
    if (!with) continue;
    EXPECT_LT(off(folder("mxfp4"), expected("mxfp4"), WeightFormat::kBf16, Keep::kAsStored, *with), 5e-2) << isa;
  }
}

TEST_F(Quantized, ItIsKeptInItsCodesAndGivesTheSameLogits) {
  ThreadTeam team(2);
  for (const auto& [name, coding] : kCheckpoints) {
    const Model model = load_model(folder(name), WeightFormat::kBf16, team);
    const Layer& layer = model.weights.layers[1];
    for (const Matrix* m : {&layer.qkv, &layer.out, &layer.gate_up, &layer.down}) EXPECT_EQ(m->coding, coding) << name;
    EXPECT_EQ(model.weights.embedding.coding, Coding::kWhole);
    for (auto* isa : kInstructionSets) {
      auto* with = kernels(isa);
      if (!with) continue;
      EXPECT_LT(off(folder(name), expected(name), WeightFormat::kBf16, Keep::kAsStored, *with), 2e-2)
          << name << " with " << isa;
    }
  }
}

TEST_F(Quantized, LogitsDoNotDependOnChunksOrCompany) {
  for (auto* name : {"gptq", "awq", "packed_odd", "int8", "fp8_blocks"}) {
    auto engine = make_transformer(folder(name), WeightFormat::kBf16);
    for (uint32_t chunk : {1u, 3u, 17u}) expect_whole(*engine, expected(name).ids(), chunk, 0, name);
  }
}

TEST_F(Quantized, NumbersInBfloat16GiveTheSameLogits) {
  for (const auto& [name, coding] : kCheckpoints)
    EXPECT_LT(off(folder(name), expected(name), WeightFormat::kBf16, Keep::kWhole), 2e-2) << name;
}

// The codes of a matrix that is quantized here, and what a product with it is.
struct Made {
  Made(uint32_t outputs, uint32_t inputs)
      : numbers(size_t(outputs) * inputs), array{Stored::kF32, {outputs, inputs}, {}} {
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = float(int(i * 7919 % 1009) - 504) / 504;
    array.data = std::as_bytes(std::span(numbers));
  }
  Matrix packed(Keep keep, ThreadTeam& team) {
    const Weight weight(array);
    const Source source{&weight};
    const auto outputs = uint32_t(array.shape[0]), inputs = uint32_t(array.shape[1]);
    return pack(plan_matrix(WeightFormat::kBf16, keep, outputs, inputs, {&source, 1}), {&source, 1}, team).value();
  }
  std::vector<float> numbers;
  Array array;
};

// Each row of x is one input alone, so that an output is one number of the matrix.
TEST(QuantizedHere, EachNumberIsAsNearAsItsLevelsAre) {
  ThreadTeam team(1);
  for (auto [outputs, inputs] : {std::pair(1u, 3u), std::pair(33u, 70u), std::pair(80u, 300u)})
    for (auto [keep, levels] : {std::pair(Keep::kInt8, 127.0), std::pair(Keep::kInt4, 8.0)})
      for (auto* isa : kInstructionSets) {
        auto* with = kernels(isa);
        if (!with) continue;
        Made made(outputs, inputs);
        const Matrix m = made.packed(keep, team);
        const size_t stride = activation_stride(m.form, inputs);
        Memory x(inputs * stride);
        std::memset(x.data(), 0, x.size());
        for (uint32_t i = 0; i < inputs; ++i) {
          const uint16_t one = 0x3f80;
          std::memcpy(x.data() + i * stride + 2 * i, &one, 2);
        }
        std::vector<float> out(size_t(inputs) * outputs);
        Multiplier multiply(*with, team, inputs);
        multiply.run({x.data(), stride}, inputs, m, Multiplier::Into::kStore, out.data(), outputs);
        for (uint32_t i = 0; i < inputs; ++i)
          for (uint32_t o = 0; o < outputs; ++o)
            ASSERT_NEAR(out[size_t(i) * outputs + o], made.numbers[size_t(o) * inputs + i], 1.0 / levels)
                << isa << " " << outputs << "x" << inputs << " input " << i << " output " << o;
      }
}

TEST(QuantizedHere, NothingAndNextToNothingAreNothingAndTakeTheMemoryThatIsSaid) {
  ThreadTeam team(1);
  Made made(32, 256);
  std::fill(made.numbers.begin(), made.numbers.end(), 0.0f);
  std::fill_n(made.numbers.begin(), 256, 1e-42f);
  EXPECT_EQ(made.packed(Keep::kWhole, team).bytes(), 32u * 256 * 2);
  EXPECT_EQ(made.packed(Keep::kInt8, team).bytes(), 32u * (256 + 2 * 4));        // a scale for 128 inputs
  EXPECT_EQ(made.packed(Keep::kInt4, team).bytes(), 32u * (128 + 8 * (4 + 1)));  // and a zero point, for 32
  const Matrix m = made.packed(Keep::kInt4, team);
  const std::vector<uint16_t> ones(256 + 32, 0x3f80);
  std::vector<float> out(32, 1);
  Multiplier(kernels(), team, 1)
      .run({reinterpret_cast<const std::byte*>(ones.data()), 0}, 1, m, Multiplier::Into::kStore, out.data(), 32);
  for (float x : out) EXPECT_NEAR(x, 0, 1e-30f);
}

TEST_F(Quantized, ModelsAreQuantizedWhenTheyAreLoaded) {
  if (models().empty()) GTEST_SKIP();
  const std::string llama = models() + "/llama_bf16";
  const Expected exact(llama + "/expected.safetensors");
  EXPECT_LT(off(llama, exact, WeightFormat::kBf16, Keep::kInt8), 5e-2);
  EXPECT_LT(off(llama, exact, WeightFormat::kBf16, Keep::kInt4), 5e-1);
  for (const char* name : {"gemma3_bf16", "phi3_bf16", "olmo2_bf16"}) {
    const std::string path = models() + "/" + name;
    EXPECT_LT(off(path, Expected(path + "/expected.safetensors"), WeightFormat::kBf16, Keep::kInt8), 1e-1) << name;
  }
  // A model that is quantized already, too, by way of its numbers.
  EXPECT_LT(off(folder("awq"), expected("awq"), WeightFormat::kBf16, Keep::kInt8), 5e-2);
  auto engine = make_transformer(llama, WeightFormat::kBf16, 2, kernels(), 16, KvFormat::kAsComputed, Keep::kInt4);
  for (uint32_t chunk : {1u, 3u, 17u}) expect_whole(*engine, exact.ids(), chunk, 0, "int4");
}

// --- what a folder may say wrongly -----------------------------------------------------------------------------------

base::Status refused(const std::string& quantization) {
  auto shape =
      parse_shape(R"({"architectures":["LlamaForCausalLM"],"vocab_size":16,"hidden_size":64,"num_hidden_layers":1,
      "num_attention_heads":2,"intermediate_size":64,"quantization_config":)" +
                  quantization + "}");
  return shape ? base::Status() : shape.error();
}

TEST(QuantizedConfig, WhatIsNotKnownHereIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"1", "'quantization_config' is not an object"},
      {R"({"quant_method":"bitsandbytes"})", "quantization_config.'quant_method' is \"bitsandbytes\"; known here are"},
      {R"({"quant_method":"gptq"})", "quantization_config.'bits' is missing"},
      {R"({"quant_method":"gptq","bits":3})", "quantization_config.'bits' is neither 4 nor 8"},
      {R"({"quant_method":"gptq","bits":4,"group_size":0})", "quantization_config.'group_size'"},
      {R"({"quant_method":"gptq","bits":4,"group_size":2})", "quantization_config.'group_size'"},
      {R"({"quant_method":"awq","bits":4,"q_group_size":8})", "quantization_config.'q_group_size'"},
      {R"({"quant_method":"fp8","weight_block_size":[1,2]})", "'weight_block_size' has fewer than 16 inputs"},
      {R"({"quant_method":"compressed-tensors","format":"int-quantized","transform_config":{"config_groups":{}}})",
       "'transform_config' is not supported"},
      {R"({"quant_method":"gptq","bits":4,"checkpoint_format":"marlin"})", "'checkpoint_format' is \"marlin\""},
      {R"({"quant_method":"awq","bits":4,"version":"gemv"})", "'version' is \"gemv\""},
      {R"({"quant_method":"awq","bits":8})", "'bits' is not 4"},
      {R"({"quant_method":"fp8","fmt":"e5m2"})", "'fmt' is \"e5m2\""},
      {R"({"quant_method":"fp8","weight_block_size":[128]})", "'weight_block_size' is not two sizes"},
      {R"({"quant_method":"fp8","weight_block_size":[0,128]})", "'weight_block_size' is not two sizes"},
      {R"({"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized"})", "'format' is"},
      {R"({"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{}})", "'config_groups'"},
      {R"({"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"a":{"weights":null}}})",
       "'config_groups' says nothing of weights"},
  };
  for (const auto& [config, text] : cases) {
    const auto status = refused(config);
    EXPECT_NE(status.text.find(text), std::string::npos) << config << ": " << status.text;
  }
  EXPECT_TRUE(refused(R"({"quant_method":"gptq","bits":4,"group_size":128})").ok());
}

// A checkpoint with one matrix, "m", [4][16] in groups of 8.
struct OneMatrix {
  explicit OneMatrix(std::vector<std::pair<std::string, std::string>> arrays) {
    std::string header = "{", data;
    for (const auto& [entry, bytes] : arrays) {
      header += (header.size() > 1 ? "," : "") + entry + ",\"data_offsets\":[" + std::to_string(data.size()) + "," +
                std::to_string(data.size() + bytes.size()) + "]}";
      data += bytes;
    }
    header += "}";
    const uint64_t length = header.size();
    const std::string path = testing::TempDir() + "/one_matrix_" + std::to_string(getpid());
    std::filesystem::create_directories(path);
    std::ofstream(path + "/model.safetensors", std::ios::binary)
        << std::string(reinterpret_cast<const char*>(&length), 8) << header << data;
    store.emplace(Store::open(*Folder::open(path)).value());
  }
  std::string refused(const Quantization& how) const {
    auto weight = Weight::find(*store, how, "m", 4, 16);
    return weight ? "" : weight.error().text;
  }
  std::optional<Store> store;
};

std::string ints(std::initializer_list<int32_t> numbers) {
  return {reinterpret_cast<const char*>(numbers.begin()), numbers.size() * 4};
}

TEST(QuantizedConfig, ArraysThatDoNotFitAreNamed) {
  const Quantization gptq{QuantMethod::kGptq, 4, 8};
  const std::pair<std::string, std::string> values = {R"("m.qweight":{"dtype":"I32","shape":[2,4])",
                                                      std::string(32, 1)},
                                            zeros = {R"("m.qzeros":{"dtype":"I32","shape":[2,1])", std::string(8, 1)},
                                            scales = {R"("m.scales":{"dtype":"F32","shape":[2,4])", std::string(32, 0)};
  auto order = [](int32_t last) {
    return std::pair<std::string, std::string>{R"("m.g_idx":{"dtype":"I32","shape":[16])",
                                               ints({0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, last})};
  };
  EXPECT_EQ(OneMatrix({values, zeros, scales}).refused(gptq), "");
  EXPECT_EQ(OneMatrix({values, zeros, scales, order(1)}).refused(gptq), "");
  EXPECT_EQ(OneMatrix({values, zeros, scales, order(2)}).refused(gptq), "'m.g_idx' names a group that is not there");
  EXPECT_EQ(OneMatrix({values, zeros, scales, order(-1)}).refused(gptq), "'m.g_idx' names a group that is not there");
  EXPECT_EQ(OneMatrix({values, scales}).refused(gptq), "the weights have no 'm.qzeros'");
  EXPECT_EQ(OneMatrix({values, zeros, scales}).refused({QuantMethod::kGptq, 4, 16}),
            "'m.qzeros' has shape [2,1]; [1,1] is expected");
  EXPECT_EQ(
      OneMatrix({{R"("m.qweight":{"dtype":"F32","shape":[2,4])", std::string(32, 1)}, zeros, scales}).refused(gptq),
      "'m.qweight' is not of type I32");
  EXPECT_EQ(OneMatrix({values}).refused({}), "the weights have no 'm.weight'");
  EXPECT_EQ(OneMatrix({{R"("m.weight":{"dtype":"I8","shape":[4,16])", std::string(64, 1)}}).refused({}),
            "'m.weight' is not of type F32, F16 or BF16");
}

// Each would make NaN of every logit.
TEST(QuantizedConfig, AScaleThatIsNotFiniteIsNamed) {
  const float nan = NAN, infinite = -INFINITY;
  auto with = [](std::string bytes, float last) {
    std::memcpy(bytes.data() + bytes.size() - 4, &last, 4);
    return bytes;
  };
  for (const float last : {nan, infinite}) {
    EXPECT_EQ(OneMatrix({{R"("m.qweight":{"dtype":"I32","shape":[2,4])", std::string(32, 1)},
                         {R"("m.qzeros":{"dtype":"I32","shape":[2,1])", std::string(8, 1)},
                         {R"("m.scales":{"dtype":"F32","shape":[2,4])", with(std::string(32, 0), last)}})
                  .refused({QuantMethod::kGptq, 4, 8}),
              "'m.scales' has a scale that is not finite");
    EXPECT_EQ(OneMatrix({{R"("m.weight":{"dtype":"F8_E4M3","shape":[4,16])", std::string(64, 1)},
                         {R"("m.weight_scale":{"dtype":"F32","shape":[1])", with(std::string(4, 0), last)}})
                  .refused({QuantMethod::kFp8}),
              "'m.weight_scale' has a scale that is not finite");
  }
  const std::string blocks(4 * 16, 1);
  auto mxfp4 = [&](char last) {
    const OneMatrix made({{R"("m.blocks":{"dtype":"U8","shape":[4,1,16])", blocks},
                          {R"("m.scales":{"dtype":"U8","shape":[4,1])", std::string(3, 1) + last}});
    auto weight = Weight::find(*made.store, {QuantMethod::kMxfp4}, "m", 4, 32);
    return weight ? "" : weight.error().text;
  };
  EXPECT_EQ(mxfp4(char(254)), "");
  EXPECT_EQ(mxfp4(char(255)), "'m.scales' has a scale that is not finite");
}

// The file of such a matrix may be holes, and the matrix small beside its scales.
TEST(QuantizedConfig, ScalesThatTakeMoreThanTheMachineHasAreNotRead) {
  const OneMatrix empty({});
  ThreadTeam team(1);
  ParameterReader load(*empty.store, WeightFormat::kBf16, team, {QuantMethod::kGptq, 4, 16});
  load.matrix(1 << 22, 1 << 19, {{"m", 1 << 22}}, ParameterReader::Bias::kNo);
  EXPECT_EQ(load.status().code, base::Code::kResourceExhausted);
}

}  // namespace
}  // namespace weir::llm
