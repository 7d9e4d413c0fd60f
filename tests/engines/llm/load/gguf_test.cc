// GGUF files as bytes: what the parser takes, and what it refuses, whatever is in them.
#include "engines/llm/load/gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "engines/llm/load/gguf_model.h"
#include "engines/llm/load/gguf_texts.h"
#include "engines/llm/load/shape.h"

namespace weir::llm {
namespace {

template <class T>
std::string raw(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}
std::string text(std::string_view value) { return raw<uint64_t>(value.size()) + std::string(value); }

constexpr uint32_t kU8 = 0, kU32 = 4, kF32 = 6, kBool = 7, kString = 8, kArray = 9, kU64 = 10, kF64 = 12;

std::string field(std::string_view name, uint32_t type, const std::string& value) {
  return text(name) + raw(type) + value;
}
std::string array(uint32_t type, uint64_t count, const std::string& items) { return raw(type) + raw(count) + items; }

std::string tensor(std::string_view name, std::initializer_list<uint64_t> sizes, uint32_t type, uint64_t offset) {
  std::string out = text(name) + raw(uint32_t(sizes.size()));
  for (uint64_t size : sizes) out += raw(size);
  return out + raw(type) + raw(offset);
}

struct Parts {
  std::vector<std::string> fields, tensors;
  std::string data;
  uint32_t version = 3;

  std::string file() const {
    std::string out = "GGUF" + raw(version) + raw<uint64_t>(tensors.size()) + raw<uint64_t>(fields.size());
    for (const auto& f : fields) out += f;
    for (const auto& t : tensors) out += t;
    out.resize((out.size() + 31) / 32 * 32);
    return out + data;
  }
};

base::Result<Gguf> parsed(const std::string& file) { return parse_gguf(std::as_bytes(std::span(file))); }
std::string gguf_refusal(const std::string& file) {
  auto gguf = parsed(file);
  return gguf ? "" : gguf.error().text;
}

Parts good() {
  Parts parts;
  parts.fields = {field("a.text", kString, text("hello")),
                  field("a.count", kU32, raw<uint32_t>(7)),
                  field("a.large", kU64, raw<uint64_t>(1) + ""),
                  field("a.real", kF32, raw(0.5f)),
                  field("a.precise", kF64, raw(0.25)),
                  field("a.flag", kBool, raw<uint8_t>(1)),
                  field("a.bytes", kArray, array(kU8, 3, "\1\2\3")),
                  field("a.words", kArray, array(kString, 2, text("x") + text("yz")))};
  parts.tensors = {tensor("second", {32, 2}, 8, 64), tensor("first", {3, 2}, 0, 0)};
  const float numbers[6] = {1, 2, 3, 4, 5, 6};
  parts.data.assign(reinterpret_cast<const char*>(numbers), sizeof numbers);
  parts.data.resize(64 + 2 * 34);
  return parts;
}

TEST(Gguf, FieldsAndTensorsAreReadAsTheyAre) {
  for (uint32_t version : {2u, 3u}) {
    Parts parts = good();
    parts.version = version;
    const std::string file = parts.file();
    auto gguf = parsed(file);
    ASSERT_TRUE(gguf) << gguf.error().text;
    EXPECT_EQ(*gguf->get<std::string>("a.text"), "hello");
    EXPECT_EQ(*gguf->get<int64_t>("a.count"), 7);
    EXPECT_EQ(*gguf->get<double>("a.real"), 0.5);
    EXPECT_EQ(*gguf->get<double>("a.precise"), 0.25);
    EXPECT_EQ(*gguf->get<bool>("a.flag"), true);
    EXPECT_EQ(*gguf->get<std::vector<int64_t>>("a.bytes"), (std::vector<int64_t>{1, 2, 3}));
    EXPECT_EQ(*gguf->get<std::vector<std::string>>("a.words"), (std::vector<std::string>{"x", "yz"}));
    EXPECT_EQ(gguf->get<double>("a.count"), nullptr) << "another kind";
    const Array& first = gguf->tensors.at("first");
    EXPECT_EQ(first.shape, (std::vector<uint64_t>{2, 3})) << "neighbours last";
    float row[3];
    read_floats(first, 3, 3, row);
    EXPECT_EQ(row[2], 6);
    EXPECT_EQ(gguf->tensors.at("second").dtype, Stored::kQ8_0);
    EXPECT_EQ(gguf->tensors.at("second").data.size(), 68u);
  }
}

TEST(Gguf, AFileThatIsCutAnywhereIsRefused) {
  const std::string file = good().file();
  for (size_t n = 0; n < file.size(); ++n) EXPECT_NE(gguf_refusal(file.substr(0, n)), "") << n;
  EXPECT_EQ(gguf_refusal(file), "");
}

// Whatever a byte becomes, nothing outside of the file is read, and nothing large is made.
TEST(Gguf, AnyByteMayBeWrong) {
  const std::string file = good().file();
  for (size_t at = 0; at < file.size(); ++at)
    for (int byte : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::string other = file;
      other[at] = char(byte);
      auto gguf = parsed(other);
      if (!gguf) continue;
      for (const auto& [name, array] : gguf->tensors) {
        std::vector<float> numbers(array.elements());
        read_floats(array, 0, numbers.size(), numbers.data());
      }
    }
}

TEST(Gguf, CountsThatTheFileCannotHoldAreRefusedAtOnce) {
  const uint64_t huge[] = {uint64_t(1) << 32, UINT64_MAX, UINT64_MAX / 8 + 1};
  for (uint64_t n : huge) {
    for (uint32_t type : {kU8, kString, kF32, kU64}) {
      Parts parts;
      parts.fields = {field("many", kArray, array(type, n, "abc"))};
      EXPECT_EQ(gguf_refusal(parts.file()), "GGUF: 'many' is longer than the file") << n;
    }
    EXPECT_EQ(gguf_refusal("GGUF" + raw<uint32_t>(3) + raw(n) + raw<uint64_t>(0) + std::string(99, ' ')),
              "GGUF: more tensors than there can be");
    EXPECT_EQ(gguf_refusal("GGUF" + raw<uint32_t>(3) + raw<uint64_t>(0) + raw(n) + std::string(99, ' ')),
              "GGUF: more fields than there can be");
    Parts parts;
    parts.fields = {field("long", kString, raw(n) + "abc")};
    EXPECT_EQ(gguf_refusal(parts.file()), "GGUF: 'long' is longer than the file, or out of range") << n;
    parts.fields = {raw(n) + "abc"};
    EXPECT_EQ(gguf_refusal(parts.file()), "GGUF: the name of a field is too long for the file");
  }
}

TEST(Gguf, WhatIsWrongIsNamed) {
  const std::pair<std::string, const char*> fields[] = {
      {field("x", 13, ""), "'x' is of a type that the format does not have"},
      {field("x", kBool, raw<uint8_t>(2)), "'x' is neither true nor false"},
      {field("x", kArray, array(kArray, 1, array(kU8, 1, "a"))), "'x' is an array of arrays"},
      {field("x", kU64, raw(UINT64_MAX)), "'x' is longer than the file, or out of range"},
      {field("x", kU32, raw(1)) + field("x", kU32, raw(1)), "'x' is there twice"},
      {field("general.alignment", kU32, raw(24)), "'general.alignment' is no power of two up to 1048576"},
      {field("general.alignment", kU32, raw(0)), "'general.alignment' is no power of two"},
      {field("general.alignment", kString, text("32")), "'general.alignment' is no power of two"},
  };
  for (const auto& [bytes, why] : fields) {
    Parts parts;
    parts.fields = {bytes};
    if (bytes.size() > 40 && std::string_view(why).find("twice") != std::string_view::npos)
      parts.fields = {bytes.substr(0, bytes.size() / 2), bytes.substr(bytes.size() / 2)};
    parts.fields.push_back(field("other", kString, text(std::string(64, 'x'))));
    EXPECT_NE(gguf_refusal(parts.file()).find(why), std::string::npos) << gguf_refusal(parts.file());
  }
  const std::pair<std::vector<std::string>, const char*> tensors[] = {
      {{tensor("t", {}, 0, 0)}, "'t' has no rank from 1 to 4"},
      {{tensor("t", {1, 1, 1, 1, 1}, 0, 0)}, "'t' has no rank from 1 to 4"},
      {{tensor("t", {0}, 0, 0)}, "'t' has a size that cannot be"},
      {{tensor("t", {uint64_t(1) << 40, uint64_t(1) << 40}, 0, 0)}, "'t' is too large"},
      {{tensor("t", {uint64_t(1) << 40, uint64_t(1) << 23}, 0, 0)}, "'t' is too large"},
      {{tensor("t", {33}, 8, 0)}, "'t' does not end its rows with a block of Q8_0"},
      {{tensor("t", {255}, 12, 0)}, "'t' does not end its rows with a block of Q4_K"},
      {{tensor("t", {1}, 0, 4)}, "'t' begins at no multiple of general.alignment"},
      {{tensor("t", {65}, 0, 0)}, "'t' lies outside of the file"},
      {{tensor("t", {1}, 0, uint64_t(1) << 63)}, "'t' lies outside of the file"},
      {{tensor("t", {16}, 0, 0), tensor("u", {1}, 0, 32)}, "'u' overlaps another tensor"},
      {{tensor("t", {1}, 0, 0), tensor("t", {1}, 0, 32)}, "'t' is there twice"},
      {{tensor("t", {33}, 20, 0)}, "'t' does not end its rows with a block of IQ4_NL"},
      {{tensor("t", {255}, 23, 0)}, "'t' does not end its rows with a block of IQ4_XS"},
      {{tensor("t", {256}, 21, 0)}, "'t' is stored as IQ3_S; F32, F16"},
      {{tensor("t", {256}, 40, 0)}, "'t' is stored as NVFP4"},
      {{tensor("t", {256}, 4, 0)}, "'t' is stored as Q4_2"},
      {{tensor("t", {256}, 999, 0)}, "'t' is stored as type 999"},
  };
  for (const auto& [entries, why] : tensors) {
    Parts parts;
    parts.tensors = entries, parts.data.resize(256);
    EXPECT_NE(gguf_refusal(parts.file()).find(why), std::string::npos) << why << ": " << gguf_refusal(parts.file());
  }
  Parts old;
  old.version = 1;
  EXPECT_EQ(gguf_refusal(old.file()), "GGUF: version 1 is not supported; 2 and 3 are");
  old.version = 0x03000000;
  EXPECT_EQ(gguf_refusal(old.file()), "GGUF: the file is big-endian");
  EXPECT_EQ(gguf_refusal("GGML" + std::string(60, 0)), "GGUF: the file does not begin as the format says");
}

// --- what fields mean ------------------------------------------------------------------------------------------------

Gguf model(std::string architecture = "llama") {
  Gguf g;
  g.fields["general.architecture"] = architecture;
  const std::pair<const char*, int64_t> counts[] = {{".context_length", 64},      {".embedding_length", 16},
                                                    {".block_count", 1},          {".feed_forward_length", 32},
                                                    {".attention.head_count", 2}, {".attention.head_count_kv", 1}};
  for (const auto& [name, n] : counts) g.fields[architecture + name] = n;
  g.fields[architecture + ".attention.layer_norm_rms_epsilon"] = 1e-5;
  g.tensors["token_embd.weight"] = Array{Stored::kF32, {260, 16}};
  return g;
}

TEST(GgufFields, BecomeAConfiguration) {
  auto shape = parse_shape(config_of(model()).value());
  ASSERT_TRUE(shape) << shape.error().text;
  EXPECT_EQ(shape->vocabulary, 260u);
  EXPECT_TRUE(shape->tied);
  EXPECT_EQ(shape->head_dim, 8u);
  EXPECT_EQ(shape->max_length, 64u);
  Gguf qwen = model("qwen3");
  qwen.fields["qwen3.attention.key_length"] = int64_t(32);
  qwen.fields["qwen3.attention.value_length"] = int64_t(32);
  qwen.fields["tokenizer.ggml.eos_token_id"] = int64_t(3);
  qwen.fields["tokenizer.ggml.tokens"] = std::vector<std::string>{"a", "<|im_end|>", "<|eot_id|>", "<|endoftext|>"};
  qwen.fields["tokenizer.ggml.token_type"] = std::vector<int64_t>{1, 3, 1, 3};
  shape = parse_shape(config_of(qwen).value());
  ASSERT_TRUE(shape) << shape.error().text;
  EXPECT_EQ(shape->head_dim, 32u);
  EXPECT_TRUE(shape->qk_norm);
  EXPECT_EQ(shape->eos_ids, (std::vector<uint32_t>{3, 1})) << "the file's own, and control tokens that end answers";
  qwen.fields["tokenizer.ggml.token_type"] = std::vector<int64_t>{1, 4, 1, 3};
  EXPECT_EQ(parse_shape(config_of(qwen).value())->eos_ids, (std::vector<uint32_t>{3, 1})) << "of whichever kind";
}

TEST(GgufFields, ThatChangeAnswersAndAreNotKnownHereAreRefused) {
  const std::pair<std::pair<const char*, GgufValue>, const char*> cases[] = {
      {{"general.architecture", std::string("gemma4")}, "'general.architecture' is \"gemma4\"; known here are llama"},
      {{"general.type", std::string("mmproj")}, "'general.type' is \"mmproj\", which is no model of text"},
      {{"llama.expert_count", int64_t(8)}, "no field 'llama.expert_used_count'"},
      {{"llama.expert_weights_scale", 2.5}, "'llama.expert_weights_scale' is not supported"},
      {{"llama.rope.dimension_count", int64_t(4)}, "'llama.rope.dimension_count' is not the size of a head, 8"},
      {{"llama.attention.causal", false}, "'llama.attention.causal' is false"},
      {{"llama.pooling_type", int64_t(3)}, "'llama.pooling_type' makes it a model of embeddings"},
      {{"llama.block_count", std::vector<int64_t>{1, 2}}, "'llama.block_count' differs from layer to layer"},
      {{"llama.block_count", std::string("two")}, "'llama.block_count' is no whole number"},
      {{"llama.attention.layer_norm_rms_epsilon", std::string("")}, "rms_epsilon' is no number"},
  };
  for (const auto& [field, why] : cases) {
    Gguf g = model();
    g.fields[field.first] = field.second;
    auto config = config_of(g);
    ASSERT_FALSE(config) << field.first;
    EXPECT_NE(config.error().text.find(why), std::string::npos) << config.error().text;
  }
  for (auto name : {"llama.embedding_length", "llama.context_length", "llama.attention.head_count"}) {
    Gguf g = model();
    g.fields.erase(name);
    EXPECT_EQ(config_of(g).error().text, "GGUF: no field '" + std::string(name) + "'");
  }
  Gguf none = model();
  none.tensors.clear();
  EXPECT_EQ(config_of(none).error().text, "GGUF: no tensor 'token_embd.weight'");
}

TEST(GgufTensors, OfExpertsAreCutIntoThese) {
  const std::vector<std::byte> data(3 * 4 * 2 * 4);
  for (const auto& [architecture, gate, first, last] :
       std::initializer_list<std::tuple<std::string, const char*, const char*, const char*>>{
           {"llama", "block_sparse_moe.gate", "block_sparse_moe.experts.0.w1", "block_sparse_moe.experts.2.w1"},
           {"qwen3moe", "mlp.gate", "mlp.experts.0.gate_proj", "mlp.experts.2.gate_proj"}}) {
    Gguf g = model(architecture);
    g.fields[architecture + ".expert_count"] = int64_t(3);
    g.tensors["blk.7.ffn_gate_exps.weight"] = Array{Stored::kF32, {3, 4, 2}, data};
    g.tensors["blk.7.ffn_gate_inp.weight"] = Array{Stored::kF32, {3, 16}};
    auto arrays = named_arrays(g);
    ASSERT_TRUE(arrays) << arrays.error().text;
    const std::string layer = "model.layers.7.";
    EXPECT_TRUE(arrays->contains(layer + gate + ".weight"));
    EXPECT_EQ(arrays->at(layer + first + ".weight").data.data(), data.data());
    EXPECT_EQ(arrays->at(layer + last + ".weight").shape, (std::vector<uint64_t>{4, 2}));
    EXPECT_EQ(arrays->at(layer + last + ".weight").data.data(), data.data() + 2 * 32);
    g.tensors["blk.7.ffn_gate_exps.weight"].shape = {uint64_t(1) << 30, 4, 2};
    EXPECT_EQ(named_arrays(g).error().text, "GGUF: 'blk.7.ffn_gate_exps.weight' is not the experts of a layer");
    g.tensors.erase("blk.7.ffn_gate_exps.weight");
    g.tensors["blk." + std::string(300, '0') + ".ffn_gate_exps.weight"] = Array{Stored::kF32, {3, 4, 2}, data};
    EXPECT_NE(named_arrays(g).error().text.find("is not the experts of a layer"), std::string::npos)
        << "its name is held once for each of them";
  }
}

TEST(GgufTensors, AreCalledAsInAHuggingFaceFolder) {
  Gguf g = model();
  g.tensors["blk.0.attn_q.weight"] = Array{Stored::kF32, {16, 16}};
  g.tensors["blk.0.attn_k.weight"] = Array{Stored::kF32, {8, 16}};
  g.tensors["blk.0.ffn_down.weight"] = Array{Stored::kF32, {16, 32}};
  auto arrays = named_arrays(g);
  ASSERT_TRUE(arrays) << arrays.error().text;
  EXPECT_EQ(arrays->at("model.layers.0.self_attn.q_proj.weight").head_rows, 8u);
  EXPECT_EQ(arrays->at("model.layers.0.self_attn.k_proj.weight").head_rows, 8u);
  g.fields["llama.attention.head_count_kv"] = std::vector<int64_t>{1, 1};  // for each layer
  EXPECT_EQ(named_arrays(g)->at("model.layers.0.self_attn.k_proj.weight").head_rows, 8u);
  EXPECT_EQ(arrays->at("model.layers.0.mlp.down_proj.weight").head_rows, 0u);
  EXPECT_TRUE(arrays->contains("model.embed_tokens.weight"));
  const Array& q = arrays->at("model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(q.row_in_file(8), 8u);
  EXPECT_EQ(q.row_in_file(9), 10u);
  EXPECT_EQ(q.row_in_file(12), 9u);
  for (auto name :
       {"blk.0.attn_qkv.weight", "blk.x.attn_q.weight", "blk.0", "output.scale", "blk..attn_q.weight", ""}) {
    Gguf other = model();
    other.tensors[name] = Array{Stored::kF32, {16, 16}};
    ASSERT_FALSE(named_arrays(other)) << name;
    EXPECT_NE(named_arrays(other).error().text.find("is none that is known here"), std::string::npos);
  }
  g.fields["llama.attention.head_count_kv"] = int64_t(3);
  EXPECT_EQ(named_arrays(g).error().text, "GGUF: 'blk.0.attn_k.weight' has no whole heads of an even size");
}

}  // namespace
}  // namespace weir::llm
