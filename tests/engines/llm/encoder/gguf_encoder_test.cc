// Encoders from GGUF files (encoder_models.py) beside the same numbers in Hugging Face folders; and what their fields
// become.
#include <cmath>
#include <nlohmann/json.hpp>

#include "device/devices.h"
#include "engines/llm/encoder/bert_shape.h"
#include "engines/llm/llm.h"
#include "sched/lane.h"
#include "support.h"
#include "text/processor.h"

namespace weir::llm {
namespace {

const std::string& gguf_encoders() {
  static const MadeFolder made("gguf_encoder_models.py");
  return made.path;
}

base::Result<std::unique_ptr<sched::Engine>> encoder_of(const std::string& file,
                                                        std::map<std::string, std::string> parameters = {}) {
  static device::Devices devices({device::DeviceOptions::Use::kOff});
  msg::ModelSpec wanted;
  wanted.name = "m";
  wanted.parameters = std::move(parameters);
  auto loaded = load(wanted, file, {&devices});
  if (!loaded) return loaded.error();
  return std::get<std::unique_ptr<sched::Engine>>(*std::move(loaded));
}

std::vector<float> outputs_of(sched::Engine& engine, msg::Call& call) {
  sched::Batch batch;
  batch.rows = call.rows, batch.calls = {&call};
  EXPECT_TRUE(engine.step(batch).ok());
  const auto& data = batch.outputs.at(0).data;
  std::vector<float> out(data.size() / sizeof(float));
  std::memcpy(out.data(), data.data(), data.size());
  return out;
}

std::vector<float> embeddings_of(sched::Engine& engine, const std::string& folder) {
  const Expected expected(folder + "/expected.safetensors");
  msg::Call call;
  for (auto [input, name] : {std::pair("input_ids", "ids"), std::pair("attention_mask", "mask")}) {
    const Array& array = expected.arrays.at(name);
    std::string_view bytes(reinterpret_cast<const char*>(array.data.data()), array.data.size());
    call.rows = uint32_t(array.shape[0]);
    call.inputs.push_back(
        {input, msg::DType::kInt64, {call.rows, int64_t(array.shape[1])}, base::Bytes::copy_of(bytes)});
  }
  return outputs_of(engine, call);
}

// Two rows without a mask, the first with two tokens of padding.
std::vector<float> padded_embeddings_of(sched::Engine& engine) {
  const int64_t ids[] = {2, 5, 6, 3, 0, 0, 2, 5, 6, 7, 8, 3};
  msg::Call call;
  call.rows = 2;
  call.inputs.push_back({"input_ids",
                         msg::DType::kInt64,
                         {2, 6},
                         base::Bytes::copy_of({reinterpret_cast<const char*>(ids), sizeof ids})});
  return outputs_of(engine, call);
}

TEST(GgufEncoders, GiveTheEmbeddingsOfTheFolderToTheLastBit) {
  if (gguf_encoders().empty()) GTEST_SKIP() << "no python3-torch here";
  for (auto* name : {"mean", "cls", "nomic", "modern", "roberta"}) {
    const std::string folder = gguf_encoders() + "/" + name;
    auto ours = encoder_of(folder + "/model.gguf"), theirs = encoder_of(folder + "/config.json");
    ASSERT_TRUE(ours) << ours.error().text;
    ASSERT_TRUE(theirs) << theirs.error().text;
    EXPECT_EQ(embeddings_of(**ours, folder), embeddings_of(**theirs, folder)) << name;
    EXPECT_EQ(padded_embeddings_of(**ours), padded_embeddings_of(**theirs)) << name;
    auto coded = encoder_of(folder + "/coded.gguf");
    ASSERT_TRUE(coded) << coded.error().text;
    EXPECT_LT(worst(embeddings_of(**coded, folder), embeddings_of(**theirs, folder), 64), 0.1) << name;
    EXPECT_EQ(encoder_of(folder + "/model.gguf", {{"task", "generate"}}).error().text,
              "parameter 'task': the GGUF file is an encoder");
    EXPECT_TRUE(encoder_of(folder + "/model.gguf", {{"task", "embed"}}));
  }
}

TEST(GgufEncoders, GiveTheScoresOfTheFolderToTheLastBit) {
  if (gguf_encoders().empty()) GTEST_SKIP() << "no python3-torch here";
  for (auto* name : {"rank", "modern_rank"}) {
    const std::string folder = gguf_encoders() + "/" + name;
    auto ours = encoder_of(folder + "/model.gguf"), theirs = encoder_of(folder + "/config.json");
    ASSERT_TRUE(ours) << ours.error().text;
    ASSERT_TRUE(theirs) << theirs.error().text;
    EXPECT_EQ((*ours)->spec().encoder->labels, 1u);
    EXPECT_EQ(embeddings_of(**ours, folder), embeddings_of(**theirs, folder)) << name;
    auto below = encoder_of(folder + "/model.gguf", {{"task", "embed"}});
    ASSERT_TRUE(below) << below.error().text;
    EXPECT_EQ((*below)->spec().outputs.at(0).name, "sentence_embedding");
  }
}

Gguf bert() {
  Gguf g;
  g.fields = {{"general.architecture", std::string("bert")},
              {"bert.embedding_length", int64_t(16)},
              {"bert.block_count", int64_t(2)},
              {"bert.attention.head_count", int64_t(4)},
              {"bert.feed_forward_length", int64_t(32)},
              {"bert.attention.layer_norm_epsilon", 1e-6},
              {"tokenizer.ggml.model", std::string("bert")},
              {"tokenizer.ggml.tokens", std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "\xe2\x96\x81play",
                                                                 "ing", "\xe2\x96\x81,"}},
              {"tokenizer.ggml.token_type", std::vector<int64_t>{3, 3, 3, 3, 1, 1, 1}},
              {"tokenizer.ggml.unknown_token_id", int64_t(1)},
              {"tokenizer.ggml.cls_token_id", int64_t(2)},
              {"tokenizer.ggml.seperator_token_id", int64_t(3)}};
  g.tensors["token_embd.weight"] = Array{Stored::kF32, {7, 16}};
  g.tensors["position_embd.weight"] = Array{Stored::kF32, {64, 16}};
  return g;
}

TEST(GgufBert, ThePaddingTokenIsTheFilesOrTheFirst) {
  Gguf g = bert();
  auto pad = [&] { return parse_bert_shape(config_of(g).value())->pad_id; };
  EXPECT_EQ(pad(), 0u);
  g.fields["tokenizer.ggml.padding_token_id"] = int64_t(6);
  EXPECT_EQ(pad(), 6u);
  for (int64_t none : {int64_t(7), int64_t(-1), int64_t(4294967295)}) {
    g.fields["tokenizer.ggml.padding_token_id"] = none;
    EXPECT_EQ(pad(), std::nullopt) << none;
  }
  g.fields["tokenizer.ggml.padding_token_id"] = std::string("0");
  EXPECT_EQ(config_of(g).error().text, "GGUF: 'tokenizer.ggml.padding_token_id' is no whole number");
}

std::string bert_refusal(const Gguf& gguf) {
  auto config = config_of(gguf);
  auto shape = config ? parse_bert_shape(*config) : config.error();
  return shape ? "" : shape.error().text;
}

TEST(GgufBert, FieldsAndTablesBecomeAConfiguration) {
  Gguf g = bert();
  auto shape = parse_bert_shape(config_of(g).value());
  ASSERT_TRUE(shape) << shape.error().text;
  EXPECT_EQ(shape->positions, 64u);
  EXPECT_EQ(shape->vocabulary, 7u);
  EXPECT_EQ(shape->types, 0u);
  EXPECT_FLOAT_EQ(shape->epsilon, 1e-6f);
  g.tensors["token_types.weight"] = Array{Stored::kF32, {16}};
  EXPECT_EQ(parse_bert_shape(config_of(g).value())->types, 1u);
  EXPECT_EQ(named_arrays(g)->at("embeddings.token_type_embeddings.weight").shape, (std::vector<uint64_t>{1, 16}));
  g.tensors["blk.1.attn_output_norm.bias"] = Array{Stored::kF32, {16}};
  EXPECT_TRUE(named_arrays(g)->contains("encoder.layer.1.attention.output.LayerNorm.bias"));
  for (auto name : {"blk.0.attn_norm.weight", "blk.0.ffn_gate.weight", "output.weight", "cls.norm.weight"}) {
    Gguf other = bert();
    other.tensors[name] = Array{Stored::kF32, {16}};
    EXPECT_FALSE(named_arrays(other)) << name;
  }
}

TEST(GgufBert, WhatIsWrongOrNotKnownIsNamed) {
  const std::pair<std::pair<const char*, GgufValue>, const char*> cases[] = {
      {{"bert.pooling_type", int64_t(5)}, "'bert.pooling_type' is neither the mean nor"},
      {{"bert.pooling_type", int64_t(-1)}, "'bert.pooling_type' is neither the mean nor"},
      {{"bert.attention.causal", true}, "'bert.attention.causal' is true"},
      {{"bert.pooling_type", int64_t(4)}, "no tensor 'cls.weight', which a classifier has"},
      {{"bert.expert_count", int64_t(8)}, "'bert.expert_count' is not supported"},
      {{"bert.block_count", std::string("2")}, "'bert.block_count' is no whole number"},
  };
  for (const auto& [field, why] : cases) {
    Gguf g = bert();
    g.fields[field.first] = field.second;
    EXPECT_NE(bert_refusal(g).find(why), std::string::npos) << bert_refusal(g);
  }
  Gguf g = bert();
  g.tensors.erase("position_embd.weight");
  EXPECT_EQ(bert_refusal(g), "GGUF: no tensor 'position_embd.weight'");
  g.fields.erase("bert.embedding_length");
  EXPECT_EQ(bert_refusal(g), "GGUF: no field 'bert.embedding_length'");
}

Gguf turning(const std::string& architecture) {
  Gguf g;
  g.fields["general.architecture"] = architecture;
  const std::pair<const char*, int64_t> counts[] = {{".context_length", 64},
                                                    {".embedding_length", 16},
                                                    {".block_count", 4},
                                                    {".attention.head_count", 4},
                                                    {".feed_forward_length", 32}};
  for (const auto& [name, n] : counts) g.fields[architecture + name] = n;
  g.tensors["token_embd.weight"] = Array{Stored::kF32, {7, 16}};
  return g;
}

TEST(GgufBert, OtherFamiliesSayHowTheirHeadsTurn) {
  Gguf g = turning("nomic-bert");
  g.fields["nomic-bert.rope.freq_base"] = 1000.0;
  auto shape = parse_bert_shape(config_of(g).value());
  ASSERT_TRUE(shape) << shape.error().text;
  EXPECT_EQ(shape->max_length(), 64u);
  EXPECT_NEAR(shape->rope.frequencies[1], std::pow(1000, -0.5), 1e-7);
  g = turning("modern-bert");
  EXPECT_EQ(parse_bert_shape(config_of(g).value())->reaches, (std::vector<uint32_t>{0, 0, 0, 0})) << "without a window";
  g.fields["modern-bert.attention.sliding_window"] = int64_t(32);
  shape = parse_bert_shape(config_of(g).value());
  ASSERT_TRUE(shape) << shape.error().text;
  EXPECT_EQ(shape->reaches, (std::vector<uint32_t>{0, 16, 16, 0}));
  EXPECT_NEAR(shape->local_rope->frequencies[1], 0.01, 1e-7);
}

TEST(GgufBert, WhatIsWrongInOtherFamiliesIsNamed) {
  const std::pair<std::pair<std::string, GgufValue>, const char*> cases[] = {
      {{"nomic-bert.context_length", int64_t(1) << 40}, "'n_positions' is not a whole number from 1 to"},
      {{"nomic-bert.context_length", int64_t(0)}, "'n_positions' is not a whole number from 1 to"},
      {{"nomic-bert.block_count", int64_t(-1)}, "'n_layer' is not a whole number from 1 to"},
      {{"nomic-bert.rope.freq_base", std::nan("")}, "'nomic-bert.rope.freq_base' is no finite number"},
      {{"nomic-bert.rope.scaling.factor", 2.0}, "'nomic-bert.rope.scaling.factor' is not supported"},
      {{"nomic-bert.expert_count", int64_t(8)}, "'nomic-bert.expert_count' is not supported"},
      {{"nomic-bert.pooling_type", int64_t(4)}, "'nomic-bert.pooling_type' makes it a classifier"},
      {{"modern-bert.attention.sliding_window", int64_t(1) << 40}, "'local_attention' is not a whole number"},
      {{"modern-bert.attention.sliding_window", std::vector<int64_t>{1, 2}}, "differs from layer to layer"},
      {{"modern-bert.pooling_type", int64_t(4)}, "no tensor 'cls.weight'"},
  };
  for (const auto& [field, why] : cases) {
    Gguf g = turning(field.first.substr(0, field.first.find('.')));
    g.fields[field.first] = field.second;
    EXPECT_NE(bert_refusal(g).find(why), std::string::npos) << bert_refusal(g);
  }
  Gguf g = turning("modern-bert");
  g.fields.erase("modern-bert.context_length");
  EXPECT_EQ(bert_refusal(g), "GGUF: no field 'modern-bert.context_length'");
}

std::vector<uint32_t> ids_of(const Gguf& gguf, std::string_view text) {
  auto tokenizer = tokenizer_of(gguf), config = tokenizer_config_of(gguf);
  EXPECT_TRUE(tokenizer) << tokenizer.error().text;
  auto made = text::make_processor(tokenizer.value(), config.value(), "");
  EXPECT_TRUE(made) << made.error().text;
  return made ? (*made)->encode(text, msg::AddSpecial::kYes) : std::vector<uint32_t>();
}

TEST(GgufBert, WordsAndPiecesAreThoseOfWordPiece) {
  using Ids = std::vector<uint32_t>;
  Gguf g = bert();
  EXPECT_EQ(ids_of(g, "Playing, play x"), (Ids{2, 4, 5, 6, 4, 1, 3}));
  g.fields["tokenizer.ggml.normalizer.lowercase"] = false;
  EXPECT_EQ(ids_of(g, "Playing, play"), (Ids{2, 1, 6, 4, 3}));
  g.fields.erase("tokenizer.ggml.normalizer.lowercase");
  auto tokens = *g.get<std::vector<std::string>>("tokenizer.ggml.tokens");
  tokens[6] = "\xe2\x96\x81Play";
  g.fields["tokenizer.ggml.tokens"] = tokens;
  EXPECT_EQ(ids_of(g, "Play playing"), (Ids{2, 6, 4, 5, 3})) << "a vocabulary with capitals";
  g.fields.erase("tokenizer.ggml.token_type");  // as in Ollama's files
  EXPECT_EQ(ids_of(g, "Play playing"), (Ids{2, 6, 4, 5, 3}));
  tokens[5] = "\xe2\x96\x81play";
  g.fields["tokenizer.ggml.tokens"] = tokens;
  EXPECT_EQ(tokenizer_of(g).error().text, "GGUF: 'tokenizer.ggml.tokens' has '\xe2\x96\x81play' twice");
  g = bert();
  g.fields["tokenizer.ggml.model"] = std::string("llama");
  EXPECT_EQ(tokenizer_of(g).error().text,
            "GGUF: 'tokenizer.ggml.model' is \"llama\", which is not supported; bert, t5 and gpt2 are");
  g = bert();
  g.fields["tokenizer.ggml.cls_token_id"] = int64_t(7);
  EXPECT_EQ(tokenizer_of(g).error().text, "GGUF: 'tokenizer.ggml.cls_token_id' is missing, or no token");
  g.fields.erase("tokenizer.ggml.cls_token_id");
  EXPECT_EQ(tokenizer_of(g).error().text, "GGUF: 'tokenizer.ggml.cls_token_id' is missing, or no token");
}

// A text may name them: BERT's vocabularies have [unused0] to [unused993], which are no special tokens.
TEST(GgufBert, TokensInBracketsAreSpecialWhereTheirTypeSaysSo) {
  using Ids = std::vector<uint32_t>;
  Gguf g = bert();
  auto tokens = *g.get<std::vector<std::string>>("tokenizer.ggml.tokens");
  tokens[5] = "[unused0]";
  g.fields["tokenizer.ggml.tokens"] = tokens;
  EXPECT_EQ(ids_of(g, "[unused0] play"), (Ids{2, 1, 1, 1, 4, 3}));
  EXPECT_EQ(ids_of(g, "[SEP] play"), (Ids{2, 3, 4, 3}));
  g.fields["tokenizer.ggml.token_type"] = std::vector<int64_t>{3, 3, 3, 3, 1, 3, 1};
  EXPECT_EQ(ids_of(g, "[unused0] play"), (Ids{2, 5, 4, 3}));
  g.fields.erase("tokenizer.ggml.token_type");
  EXPECT_EQ(ids_of(g, "[unused0] play"), (Ids{2, 1, 1, 1, 4, 3}));
  EXPECT_EQ(ids_of(g, "[SEP] play"), (Ids{2, 3, 4, 3}));
}

// Special tokens without brackets have the mark of a word in the file, and not in texts.
TEST(GgufBert, SpecialTokensAreNamedAsTextsHaveThem) {
  using Ids = std::vector<uint32_t>;
  Gguf g = bert();
  auto tokens = *g.get<std::vector<std::string>>("tokenizer.ggml.tokens");
  tokens[2] = "\xe2\x96\x81<s>", tokens[3] = "</s>";
  g.fields["tokenizer.ggml.tokens"] = tokens;
  EXPECT_EQ(ids_of(g, "<s>play</s>"), (Ids{2, 2, 4, 3, 3}));
}

}  // namespace
}  // namespace weir::llm
