// Encoders: embeddings against the reference in torch, against themselves in other company, and what is refused.
#include <map>

#include "device/devices.h"
#include "engines/llm/llm.h"
#include "sched/lane.h"
#include "support.h"
#include "support/open_home.h"

namespace weir::llm {
namespace {

const std::string& encoders() {
  static const MadeFolder made("encoder_models.py");
  return made.path;
}

using Settings = std::map<std::string, std::string>;

device::Devices& devices() {
  static device::Devices all({device::DeviceOptions::Use::kOff});
  return all;
}

base::Result<std::unique_ptr<sched::Engine>> try_load(const std::string& folder, Settings settings = {}) {
  msg::ModelSpec wanted;
  wanted.name = "m";
  wanted.parameters = std::move(settings);
  auto loaded = load(wanted, folder + "/config.json", {&devices()});
  if (!loaded) return loaded.error();
  return std::get<std::unique_ptr<sched::Engine>>(*std::move(loaded));
}

std::unique_ptr<sched::Engine> engine_of(const std::string& name, Settings settings = {}) {
  settings.emplace("threads", "2");
  auto engine = try_load(encoders() + "/" + name, std::move(settings));
  EXPECT_TRUE(bool(engine)) << engine.error().text;
  return engine ? std::move(*engine) : nullptr;
}

template <class T>
msg::Tensor whole_numbers(std::string name, msg::DType dtype, uint32_t rows, const std::vector<int64_t>& values) {
  std::vector<T> narrow(values.begin(), values.end());
  std::string_view bytes(reinterpret_cast<const char*>(narrow.data()), narrow.size() * sizeof(T));
  return {std::move(name), dtype, {int64_t(rows), int64_t(values.size() / rows)}, base::Bytes::copy_of(bytes)};
}
msg::Tensor int64s(std::string name, uint32_t rows, const std::vector<int64_t>& values) {
  return whole_numbers<int64_t>(std::move(name), msg::DType::kInt64, rows, values);
}

// The reference's rows, padded to the longest.
struct Rows {
  explicit Rows(const std::string& name) : expected(encoders() + "/" + name + "/expected.safetensors") {
    ids = of("ids"), mask = of("mask"), types = of("types");
    count = uint32_t(expected.arrays.at("ids").shape[0]), width = uint32_t(expected.arrays.at("ids").shape[1]);
    embeddings = expected.floats("embeddings");
    hidden = uint32_t(embeddings.size() / count);
  }
  std::vector<int64_t> of(const std::string& name) const {
    const Array& array = expected.arrays.at(name);
    std::vector<int64_t> out(array.elements());
    std::memcpy(out.data(), array.data.data(), out.size() * 8);
    return out;
  }
  uint32_t length(uint32_t row) const {
    return uint32_t(std::count(mask.begin() + row * width, mask.begin() + (row + 1) * width, 1));
  }
  std::vector<int64_t> part(const std::vector<int64_t>& of, uint32_t row) const {
    return {of.begin() + row * width, of.begin() + row * width + length(row)};
  }
  bool typed() const {
    return std::any_of(types.begin(), types.end(), [](int64_t t) { return t != 0; });
  }
  // All rows, padded.
  void fill(msg::Call& call) const {
    call.rows = count;
    call.inputs = {int64s("input_ids", count, ids), int64s("attention_mask", count, mask)};
    if (typed()) call.inputs.push_back(int64s("token_type_ids", count, types));
  }
  // One row as it is.
  void fill(msg::Call& call, uint32_t row) const {
    call.rows = 1;
    call.inputs = {int64s("input_ids", 1, part(ids, row))};
    if (typed()) call.inputs.push_back(int64s("token_type_ids", 1, part(types, row)));
  }
  Expected expected;
  std::vector<int64_t> ids, mask, types;
  std::vector<float> embeddings;
  uint32_t count = 0, width = 0, hidden = 0;
};

sched::Batch run(sched::Engine& engine, std::vector<msg::Call*> calls) {
  sched::Batch batch;
  for (auto* call : calls) batch.rows += call->rows;
  batch.calls = std::move(calls);
  auto status = engine.step(batch);
  EXPECT_TRUE(status.ok()) << status.text;
  return batch;
}

std::vector<float> floats_of(const sched::Batch& batch) {
  const auto& data = batch.outputs.at(0).data;
  std::vector<float> out(data.size() / sizeof(float));
  std::memcpy(out.data(), data.data(), data.size());
  return out;
}

class Encoders : public testing::Test {
 protected:
  void SetUp() override {
    if (encoders().empty()) GTEST_SKIP() << "no python3-torch here";
  }
};

void expect_embeddings(const std::string& name, double tolerance, Settings settings = {}) {
  Rows rows(name);
  auto engine = engine_of(name, settings);
  ASSERT_TRUE(engine);
  msg::Call call;
  rows.fill(call);
  auto batch = run(*engine, {&call});
  EXPECT_EQ(batch.outputs[0].shape, (msg::Shape{rows.count, rows.hidden}));
  EXPECT_LT(worst(floats_of(batch), rows.embeddings, rows.hidden), tolerance) << name << " " << settings["kernels"];
}

TEST_F(Encoders, EmbeddingsAreTheReferencesInFloat32) {
  for (auto* name : {"bert", "odd", "roberta", "both", "causal", "distil", "nomic", "modern", "modern_odd"})
    expect_embeddings(name, 1e-4, {{"dtype", "float32"}});
}

TEST_F(Encoders, EmbeddingsAreTheReferencesInBfloat16) {
  for (auto* name : {"bert_bf16", "both_bf16", "odd", "nomic_bf16", "modern_bf16"}) expect_embeddings(name, 2e-2);
}

TEST_F(Encoders, EveryInstructionSetGivesTheReferencesEmbeddings) {
  for (auto* isa : {"portable", "avx2", "avx512", "avx512_bf16"}) {
    if (!kernels(isa)) continue;
    expect_embeddings("bert", 1e-4, {{"kernels", isa}});
    expect_embeddings("odd", 1e-4, {{"kernels", isa}, {"dtype", "float32"}});
    expect_embeddings("bert_bf16", 2e-2, {{"kernels", isa}});
    expect_embeddings("modern_odd", 1e-4, {{"kernels", isa}});
    expect_embeddings("modern_bf16", 2e-2, {{"kernels", isa}});
  }
}

// Padded in one call; each in a call of its own, some with a mask; in packs of other sizes; alone: the same bits.
TEST_F(Encoders, ARowDoesNotDependOnItsCompanyOrItsPadding) {
  for (auto* name :
       {"bert", "odd", "bert_bf16", "roberta", "both", "causal", "both_bf16", "nomic", "modern", "modern_bf16"}) {
    Rows rows(name);
    auto engine = engine_of(name);
    std::vector<float> alone;
    std::vector<msg::Call> calls(rows.count);
    std::vector<msg::Call*> all;
    for (uint32_t r = 0; r < rows.count; ++r) {
      rows.fill(calls[r], r);
      auto one = floats_of(run(*engine, {&calls[r]}));
      alone.insert(alone.end(), one.begin(), one.end());
      if (r % 2 == 1) calls[r].inputs.push_back(int64s("attention_mask", 1, std::vector<int64_t>(rows.length(r), 7)));
      all.push_back(&calls[r]);
    }
    EXPECT_EQ(floats_of(run(*engine, all)), alone) << name << " in calls of their own";
    msg::Call padded;
    rows.fill(padded);
    EXPECT_EQ(floats_of(run(*engine, {&padded})), alone) << name << " padded";
    auto small = engine_of(name, {{"step_tokens", "1"}, {"max_length", "150"}, {"threads", "1"}});
    EXPECT_EQ(floats_of(run(*small, {&padded})), alone) << name << " in small packs";
  }
}

// With the kernels' host versions: all of the device's engine but the kernels.
TEST_F(Encoders, OnADeviceTheyAreTheReferencesToo) {
  for (auto* name : {"bert", "odd", "roberta", "bert_bf16", "both", "causal", "both_bf16"}) {
    expect_embeddings(name, 2e-2, {{"device", "host"}});
    Rows rows(name);
    auto engine = engine_of(name, {{"device", "host"}}),
         small = engine_of(name, {{"device", "host"}, {"step_tokens", "1"}, {"max_length", "150"}});
    msg::Call padded;
    rows.fill(padded);
    auto all = floats_of(run(*engine, {&padded}));
    EXPECT_EQ(floats_of(run(*small, {&padded})), all) << name << " in small packs";
    for (auto* graphs : {"on", "off"}) {  // of packs that are small enough; the third run is of a graph
      auto other = engine_of(name, {{"device", "host"}, {"graphs", graphs}});
      for (int again = 0; again < 3; ++again)
        EXPECT_EQ(floats_of(run(*other, {&padded})), all) << name << " with graphs: " << graphs;
    }
    for (uint32_t r = 0; r < rows.count; ++r) {
      msg::Call one;
      rows.fill(one, r);
      auto alone = floats_of(run(*engine, {&one}));
      EXPECT_EQ(std::memcmp(alone.data(), all.data() + r * rows.hidden, rows.hidden * 4), 0) << name << " " << r;
    }
  }
  for (auto* name : {"bert", "both"})
    EXPECT_EQ(try_load(encoders() + "/" + name, {{"device", "host"}, {"dtype", "float32"}}).error().code,
              base::Code::kInvalidArgument);
}

TEST_F(Encoders, WithoutAMaskPadIdsAtTheEndAreNoText) {
  for (auto* name : {"bert", "roberta"}) {
    Rows rows(name);
    auto engine = engine_of(name);
    msg::Call padded, bare;
    rows.fill(padded);
    rows.fill(bare);
    std::erase_if(bare.inputs, [](const auto& t) { return t.name == "attention_mask"; });
    EXPECT_EQ(floats_of(run(*engine, {&bare})), floats_of(run(*engine, {&padded}))) << name;
  }
}

TEST_F(Encoders, IdsOf32BitsAreTheSameIds) {
  Rows rows("bert");
  auto engine = engine_of("bert");
  msg::Call wide, narrow;
  rows.fill(wide, 0);
  rows.fill(narrow, 0);
  narrow.inputs[0] = whole_numbers<int32_t>("input_ids", msg::DType::kInt32, 1, rows.part(rows.ids, 0));
  EXPECT_EQ(floats_of(run(*engine, {&wide})), floats_of(run(*engine, {&narrow})));
}

TEST_F(Encoders, PaddingBeforeATextShiftsItsPlacesAsTheModelSays) {
  Rows rows("both");  // turned by distances: places before the text do not matter
  auto engine = engine_of("both");
  msg::Call plain, shifted;
  rows.fill(plain, 0);
  auto ids = rows.part(rows.ids, 0);
  std::vector<int64_t> mask(ids.size(), 1);
  ids.insert(ids.begin(), 3, 9), mask.insert(mask.begin(), 3, 0);
  shifted.rows = 1;
  shifted.inputs = {int64s("input_ids", 1, ids), int64s("attention_mask", 1, mask)};
  EXPECT_EQ(floats_of(run(*engine, {&plain})), floats_of(run(*engine, {&shifted})));
}

TEST_F(Encoders, ABadRowFailsItsOwnCallOnly) {
  Rows rows("bert");
  auto engine = engine_of("bert");
  auto fails = [&](auto&& spoil) {
    msg::Call good, bad;
    rows.fill(good, 0);
    rows.fill(bad, 2);
    auto alone = floats_of(run(*engine, {&good}));
    spoil(bad);
    auto batch = run(*engine, {&bad, &good});
    if (batch.failures.empty()) return std::string("taken");
    EXPECT_TRUE(batch.failures[1].ok());
    auto both = floats_of(batch);
    EXPECT_EQ(std::vector<float>(both.begin() + rows.hidden, both.end()), alone);
    return batch.failures[0].text;
  };
  EXPECT_EQ(fails([](auto&) {}), "taken");
  EXPECT_EQ(fails([](auto& c) {
              c.inputs = {int64s("input_ids", 1, {5, 160})};
            }),
            "row 0: token id 160 is not in the vocabulary of 160");
  EXPECT_EQ(fails([](auto& c) {
              c.inputs = {int64s("input_ids", 1, {5, -1})};
            }),
            "row 0: token id -1 is not in the vocabulary of 160");
  EXPECT_EQ(fails([](auto& c) { c.inputs = {int64s("input_ids", 1, std::vector<int64_t>(301, 5))}; }),
            "row 0: more than the 300 tokens that the model takes");
  EXPECT_EQ(fails([](auto& c) { c.inputs = {int64s("input_ids", 1, {0, 0})}; }), "row 0: no token that is not masked");
  EXPECT_EQ(fails([](auto& c) {
              c.inputs = {int64s("input_ids", 1, {5}), int64s("token_type_ids", 1, {2})};
            }),
            "row 0: token type 2 is not below 2");
  EXPECT_EQ(fails([](auto& c) {
              c.inputs = {int64s("input_ids", 1, {5, 6}), int64s("attention_mask", 1, {1})};
            }),
            "input 'attention_mask' has shape [1,1], 'input_ids' has [1,2]");
}

TEST_F(Encoders, TheSpecSaysWhatTheModelIs) {
  auto engine = engine_of("bert");
  const msg::ModelSpec& spec = engine->spec();
  EXPECT_TRUE(spec.ragged);
  EXPECT_FALSE(spec.text);
  ASSERT_TRUE(spec.encoder);
  EXPECT_EQ(spec.encoder->max_length, 300u);
  EXPECT_EQ(spec.encoder->hidden_size, 64u);
  EXPECT_TRUE(spec.encoder->normalized);
  EXPECT_FALSE(spec.encoder->codec) << "no tokenizer.json: ids only";
  ASSERT_EQ(spec.inputs.size(), 3u);
  EXPECT_TRUE(spec.inputs[0].takes(msg::DType::kInt32));
  EXPECT_TRUE(spec.inputs[1].optional);
  EXPECT_EQ(engine_of("both")->spec().inputs.size(), 2u);
  EXPECT_EQ(engine_of("roberta")->spec().encoder->max_length, 298u);
}

TEST_F(Encoders, ParametersOverrideTheFolder) {
  Rows rows("bert");
  auto plain = engine_of("bert", {{"normalize", "off"}, {"pooling", "cls"}, {"max_length", "20"}});
  EXPECT_FALSE(plain->spec().encoder->normalized);
  EXPECT_EQ(plain->spec().encoder->max_length, 20u);
  auto refused = [](Settings settings) {
    auto engine = try_load(encoders() + "/bert", std::move(settings));
    return engine ? "taken" : engine.error().text;
  };
  EXPECT_NE(refused({{"pooling", "max"}}).find("'pooling'"), std::string::npos);
  EXPECT_NE(refused({{"normalize", "perhaps"}}).find("'normalize'"), std::string::npos);
  EXPECT_NE(refused({{"task", "sing"}}).find("'task'"), std::string::npos);
  EXPECT_NE(refused({{"kv_cache_dtype", "int8"}}).find("'kv_cache_dtype'"), std::string::npos);
  EXPECT_NE(refused({{"task", "generate"}}).find("architectures"), std::string::npos);
}

// Calls of different lengths wait together and run together.
TEST_F(Encoders, RowsOfDifferentLengthsShareABatch) {
  Rows rows("bert");
  std::vector<std::unique_ptr<sched::Engine>> engines;
  engines.push_back(engine_of("bert"));
  msg::ModelSpec spec = engines[0]->spec();
  spec.max_batch = rows.count, spec.batching.dynamic = true, spec.batching.max_delay = std::chrono::minutes(1);
  bus::ModelStats stats;
  support::OpenHome post;
  std::vector<msg::Call> calls(rows.count);
  {
    auto lanes = sched::make_lanes(std::move(engines), spec, stats, base::heap());
    for (uint32_t r = 0; r < rows.count; ++r) {
      rows.fill(calls[r], r);
      calls[r].home = &post;
      lanes->put(&calls[r]);
    }
    post.until(rows.count);
  }
  for (auto& mail : post.mail) {
    EXPECT_TRUE(std::holds_alternative<msg::Outputs>(mail.event.what));
    EXPECT_EQ(mail.call->times.batch_rows, rows.count);
  }
}

// ---- Classifiers and rerankers

void expect_scores(const std::string& name, double tolerance, Settings settings = {}) {
  Rows rows(name);
  auto engine = engine_of(name, settings);
  ASSERT_TRUE(engine);
  const uint32_t labels = engine->spec().encoder->labels;
  ASSERT_GT(labels, 0u);
  msg::Call call;
  rows.fill(call);
  auto batch = run(*engine, {&call});
  ASSERT_EQ(batch.outputs.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const msg::Tensor& tensor = batch.outputs[i];
    EXPECT_EQ(tensor.name, i == 0 ? "scores" : "logits");
    ASSERT_EQ(tensor.shape, (msg::Shape{rows.count, labels}));
    auto expected = rows.expected.floats(tensor.name);
    std::vector<float> given(expected.size());
    std::memcpy(given.data(), tensor.data.data(), tensor.data.size());
    for (size_t at = 0; at < given.size(); ++at)
      EXPECT_NEAR(given[at], expected[at], tolerance * std::max(1.0f, std::abs(expected[at]))) << name << " " << at;
  }
}

TEST_F(Encoders, ScoresOfClassifiersAreTheReferences) {
  for (auto* name : {"rerank", "raw", "classes", "moods", "judge", "modern_rank"})
    expect_scores(name, 1e-4, {{"dtype", "float32"}});
  expect_scores("rerank_bf16", 3e-2);
}

TEST_F(Encoders, ScoresOnADeviceAreTheReferencesToo) {
  for (auto* name : {"rerank", "classes", "moods", "judge", "rerank_bf16"})
    expect_scores(name, 8e-2, {{"device", "host"}});
}

TEST_F(Encoders, ScoresDoNotDependOnCompany) {
  Rows rows("classes");
  auto engine = engine_of("classes");
  msg::Call padded;
  rows.fill(padded);
  const auto all = floats_of(run(*engine, {&padded}));
  for (uint32_t r = 0; r < rows.count; ++r) {
    msg::Call one;
    rows.fill(one, r);
    auto alone = floats_of(run(*engine, {&one}));
    ASSERT_EQ(alone.size(), 3u);
    EXPECT_EQ(std::memcmp(alone.data(), all.data() + r * 3, 12), 0) << r;
  }
}

TEST_F(Encoders, AClassifierSaysItsLabels) {
  auto engine = engine_of("classes");
  const msg::ModelSpec& spec = engine->spec();
  EXPECT_EQ(spec.outputs.at(0).labels, (std::vector<std::string>{"bad", "so-so", "good"}));
  EXPECT_EQ(spec.encoder->labels, 3u);
  auto below = engine_of("classes", {{"task", "embed"}});
  EXPECT_EQ(below->spec().encoder->labels, 0u);
  EXPECT_EQ(below->spec().outputs.at(0).name, "sentence_embedding");
  EXPECT_EQ(try_load(encoders() + "/classes", {{"pooling", "mean"}}).error().code, base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace weir::llm
