#include "engines/llm/load/details.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/encoding.h"
#include "engines/llm/load/store.h"

namespace weir::llm {
namespace {

using msg::ModelDetails;
using nlohmann::json;

constexpr size_t kMostFacts = 256, kLongestFact = 512;
constexpr uint64_t kMostNumbers = uint64_t(1) << 60;

std::string upper(std::string text) {
  for (char& c : text) c = char(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string lower(std::string text) {
  for (char& c : text) c = char(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string text_of(const json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? base::presentable(at->get<std::string>(), 64) : std::string();
}

// The number of a field of config.json, or of its "text_config"; 0: it has none.
int64_t whole_of(const json& config, const char* name) {
  for (const json* object : {config.contains("text_config") ? &config["text_config"] : &config, &config}) {
    if (!object->is_object()) continue;
    const auto at = object->find(name);
    if (at != object->end() && at->is_number_unsigned() && at->get<uint64_t>() < kMostNumbers)
      return int64_t(at->get<uint64_t>());
  }
  return 0;
}

// "Qwen3ForCausalLM" -> "qwen3"
std::string family_of(const json& config) {
  if (auto type = text_of(config, "model_type"); !type.empty()) return type;
  const auto at = config.find("architectures");
  if (at == config.end() || !at->is_array() || at->empty() || !at->front().is_string()) return {};
  const std::string name = lower(base::presentable(at->front().get<std::string>(), 64));
  return name.substr(0, name.find("for"));
}

// Numbers that several share a word with: GPTQ, AWQ, compressed-tensors.
bool is_packed(std::string_view name) { return name.ends_with(".qweight") || name.ends_with(".weight_packed"); }
// MXFP4, whose bytes have two (expert_arrays.h).
bool is_pairs(std::string_view name) { return name.ends_with(".blocks"); }
// Arrays that a quantized matrix has beside its numbers.
bool is_beside(std::string_view name) {
  for (std::string_view end : {".scales", ".qzeros", ".g_idx", ".weight_scale", ".weight_scale_inv", ".weight_shape",
                               ".weight_zero_point", ".weight_g_idx", ".input_scale"})
    if (name.ends_with(end)) return true;
  return false;
}

uint64_t count_numbers(const Arrays& arrays, uint64_t in_word) {
  uint64_t out = 0;
  for (const auto& [name, array] : arrays)
    if (!is_beside(name)) out += array.elements() * (is_packed(name) ? in_word : is_pairs(name) ? 2 : 1);
  return std::min(out, kMostNumbers);
}

std::string stored_name(Stored stored) {
  static const std::map<Stored, const char*> kNames{
      {Stored::kF32, "F32"},      {Stored::kF16, "F16"},    {Stored::kBf16, "BF16"}, {Stored::kFp8, "FP8"},
      {Stored::kInt8, "INT8"},    {Stored::kQ4_0, "Q4_0"},  {Stored::kQ4_1, "Q4_1"}, {Stored::kQ5_0, "Q5_0"},
      {Stored::kQ5_1, "Q5_1"},    {Stored::kQ8_0, "Q8_0"},  {Stored::kQ2K, "Q2_K"},  {Stored::kQ3K, "Q3_K"},
      {Stored::kQ4K, "Q4_K"},     {Stored::kQ5K, "Q5_K"},   {Stored::kQ6K, "Q6_K"},  {Stored::kIq4Nl, "IQ4_NL"},
      {Stored::kIq4Xs, "IQ4_XS"}, {Stored::kMxfp4, "MXFP4"}};
  const auto at = kNames.find(stored);
  return at == kNames.end() ? "" : at->second;
}

// The type that most of the arrays' bytes have.
std::string usual_type(const Arrays& arrays) {
  std::map<Stored, uint64_t> bytes;
  for (const auto& [name, array] : arrays) bytes[array.dtype] += array.data.size();
  const auto most = std::max_element(bytes.begin(), bytes.end(), [](auto& a, auto& b) { return a.second < b.second; });
  return most == bytes.end() ? "" : stored_name(most->first);
}

void read_arrays(const Folder& folder, const json& config, ModelDetails& out) {
  uint64_t bits = 4;
  if (const auto at = config.find("quantization_config"); at != config.end() && at->is_object()) {
    out.quantization = upper(text_of(*at, "quant_method"));
    if (auto said = whole_of(*at, "bits"); said == 2 || said == 8) bits = uint64_t(said);
  }
  auto store = Store::open(folder);
  if (!store) return;
  out.parameters = count_numbers(store->arrays(), 32 / bits);
  if (out.quantization.empty()) out.quantization = usual_type(store->arrays());
}

// Ollama's names for llama.cpp's numbers of general.file_type.
std::string file_type(int64_t type) {
  static const std::map<int64_t, const char*> kNames{
      {0, "F32"},     {1, "F16"},     {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},    {8, "Q5_0"},      {9, "Q5_1"},
      {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"}, {13, "Q3_K_L"}, {14, "Q4_K_S"}, {15, "Q4_K_M"},   {16, "Q5_K_S"},
      {17, "Q5_K_M"}, {18, "Q6_K"},   {25, "IQ4_NL"}, {30, "IQ4_XS"}, {32, "BF16"},   {38, "MXFP4_MOE"}};
  const auto at = kNames.find(type);
  return at == kNames.end() ? "" : at->second;
}

ModelDetails::Fact fact_of(const GgufValue& value) {
  if (auto* number = std::get_if<int64_t>(&value)) return *number;
  if (auto* number = std::get_if<double>(&value)) return *number;
  if (auto* flag = std::get_if<bool>(&value)) return *flag;
  if (auto* text = std::get_if<std::string>(&value)) return base::presentable(*text, kLongestFact);
  return std::monostate();
}

}  // namespace

std::shared_ptr<const ModelDetails> details_of(const Folder& folder, std::string_view config_json) {
  auto out = std::make_shared<ModelDetails>();
  out->format = "safetensors";
  const json config = json::parse(config_json, nullptr, false);
  if (!config.is_object()) return out;
  out->family = family_of(config);
  read_arrays(folder, config, *out);
  out->facts["general.architecture"] = out->family;
  if (out->parameters > 0) out->facts["general.parameter_count"] = int64_t(out->parameters);
  for (const auto& [theirs, ours] : {std::pair{"max_position_embeddings", "context_length"},
                                     {"hidden_size", "embedding_length"},
                                     {"num_hidden_layers", "block_count"},
                                     {"num_attention_heads", "attention.head_count"},
                                     {"num_key_value_heads", "attention.head_count_kv"},
                                     {"intermediate_size", "feed_forward_length"},
                                     {"vocab_size", "vocab_size"}})
    if (auto number = whole_of(config, theirs); number > 0) out->facts[out->family + '.' + ours] = number;
  return out;
}

std::shared_ptr<const ModelDetails> details_of(const Gguf& gguf) {
  auto out = std::make_shared<ModelDetails>();
  out->format = "gguf";
  if (auto* name = gguf.get<std::string>("general.architecture")) out->family = base::presentable(*name, 64);
  if (auto* type = gguf.get<int64_t>("general.file_type")) out->quantization = file_type(*type);
  if (out->quantization.empty()) out->quantization = usual_type(gguf.tensors);
  out->parameters = count_numbers(gguf.tensors, 1);
  for (const auto& [name, value] : gguf.fields)
    if (out->facts.size() < kMostFacts && name.size() <= kLongestFact && name != "general.name" &&
        name != "tokenizer.chat_template")
      out->facts.emplace(base::presentable(name, kLongestFact), fact_of(value));
  if (out->parameters > 0) out->facts["general.parameter_count"] = int64_t(out->parameters);
  return out;
}

}  // namespace weir::llm
