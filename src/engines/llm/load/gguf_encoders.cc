#include "engines/llm/load/gguf_encoders.h"

#include <nlohmann/json.hpp>

#include "engines/llm/load/gguf_families.h"

namespace weir::llm {
namespace {

using nlohmann::json;

constexpr int64_t kRank = 4;  // the way from states to an embedding that is none: to a classifier's scores
constexpr size_t kMostLabels = 1 << 14;

// Rows of a table.
uint64_t rows_of(const Array* table) { return !table ? 0 : table->shape.size() < 2 ? 1 : table->shape[0]; }

// Files of before llama.cpp knew of classifiers do not say that they are ones.
bool classifies(GgufFields& f) {
  const auto way = f.whole(f.key("pooling_type")).value_or(0);
  return way == kRank || (way == 0 && f.tensor("cls.output.weight"));
}

struct Names {
  const char *hidden = "hidden_size", *layers = "num_hidden_layers", *heads = "num_attention_heads",
             *intermediate = "intermediate_size", *epsilon = "layer_norm_eps", *positions = "max_position_embeddings";
};

void write_sizes(GgufFields& f, const Names& names, json& out) {
  const std::pair<const char*, const char*> counts[] = {{names.hidden, "embedding_length"},
                                                        {names.layers, "block_count"},
                                                        {names.heads, "attention.head_count"},
                                                        {names.intermediate, "feed_forward_length"}};
  for (const auto& [ours, theirs] : counts) {
    const auto number = f.whole(f.key(theirs));
    if (!number) f.fail(base::invalid("GGUF: no field '" + f.key(theirs) + "'"));
    out[ours] = number.value_or(0);
  }
  out[names.epsilon] = f.real(f.key("attention.layer_norm_epsilon")).value_or(1e-12);
  if (!f.tensor("token_embd.weight")) f.fail(base::invalid("GGUF: no tensor 'token_embd.weight'"));
  out["vocab_size"] = rows_of(f.tensor("token_embd.weight"));
  out["type_vocab_size"] = rows_of(f.tensor("token_types.weight"));
}

// For models whose positions turn heads.
void write_length(GgufFields& f, const Names& names, json& out) {
  const auto length = f.whole(f.key("context_length"));
  if (!length) f.fail(base::invalid("GGUF: no field '" + f.key("context_length") + "'"));
  out[names.positions] = length.value_or(0);
  for (auto* name : {"rope.scaling.factor", "rope.scaling.type"})
    if (f.has(f.key(name))) f.unsupported(f.key(name), "is not supported for this architecture");
}

void write_bert(GgufFields& f, json& out) {
  constexpr Names kNames;
  out["architectures"] = json::array({"BertModel"});
  out["hidden_act"] = "gelu";
  write_sizes(f, kNames, out);
  if (!f.tensor("position_embd.weight")) f.fail(base::invalid("GGUF: no tensor 'position_embd.weight'"));
  out[kNames.positions] = rows_of(f.tensor("position_embd.weight"));
}

void write_nomic(GgufFields& f, json& out) {
  constexpr Names kNames{"n_embd", "n_layer", "n_head", "n_inner", "layer_norm_epsilon", "n_positions"};
  out["architectures"] = json::array({"NomicBertModel"});
  out["activation_function"] = "swiglu";
  write_sizes(f, kNames, out);
  write_length(f, kNames, out);
  out["rotary_emb_base"] = f.real(f.key("rope.freq_base")).value_or(10000);
}

void write_modern(GgufFields& f, json& out) {
  Names names;
  names.epsilon = "norm_eps";
  out["architectures"] = json::array({"ModernBertModel"});
  out["hidden_activation"] = "gelu";
  write_sizes(f, names, out);
  write_length(f, names, out);
  out["global_rope_theta"] = f.real(f.key("rope.freq_base")).value_or(160000);
  out["local_rope_theta"] = f.real(f.key("rope.freq_base_swa")).value_or(10000);
  const auto window = f.whole(f.key("attention.sliding_window")).value_or(0);
  out["local_attention"] = window > 0 ? window : 128;
  out["global_attn_every_n_layers"] =
      window > 0 ? f.whole(f.key("attention.sliding_window_pattern")).value_or(3) : 1;  // 1: all see all
}

void write_labels(GgufFields& f, json& out) {
  for (auto name : {"cls.weight", "cls.output.weight"})
    if (!f.tensor(name)) f.fail(base::invalid("GGUF: no tensor '" + std::string(name) + "', which a classifier has"));
  const uint64_t count = rows_of(f.tensor("cls.output.weight"));
  const auto* labels = f.file().get<std::vector<std::string>>(f.key("classifier.output_labels"));
  if (count > kMostLabels) return f.invalid("cls.output.weight", "has too many labels");
  out["num_labels"] = count;
  if (!labels || labels->size() != count) return;
  for (size_t i = 0; i < count; ++i) out["id2label"][std::to_string(i)] = (*labels)[i];
}

void refuse_others(GgufFields& f) {
  if (auto way = f.whole(f.key("pooling_type")); way && (*way < 0 || *way > kRank))
    f.unsupported(f.key("pooling_type"), "is neither the mean nor the first or the last state, nor a rank");
  if (auto causal = f.file().get<bool>(f.key("attention.causal")); causal && *causal)
    f.unsupported(f.key("attention.causal"), "is true, which is not supported");
  if (f.whole(f.key("expert_count")).value_or(0) > 0) f.unsupported(f.key("expert_count"), "is not supported");
}

}  // namespace

bool is_gguf_encoder(const Gguf& gguf) {
  const GgufFamily* family = gguf_family(gguf);
  return family && !family->outside.empty();
}

base::Result<std::string> encoder_config_of(const Gguf& gguf) {
  GgufFields f(gguf);
  f.architecture = *gguf.get<std::string>("general.architecture");
  json out = json::object();
  if (f.architecture == "bert")
    write_bert(f, out);
  else if (f.architecture == "nomic-bert")
    write_nomic(f, out);
  else
    write_modern(f, out);
  const int64_t pad = f.whole("tokenizer.ggml.padding_token_id").value_or(0);  // 0 is BERT's
  if (pad >= 0 && pad < out["vocab_size"].get<int64_t>()) out["pad_token_id"] = pad;
  refuse_others(f);
  if (f.status().ok() && classifies(f)) {
    if (f.architecture == "nomic-bert") f.unsupported(f.key("pooling_type"), "makes it a classifier");
    const std::string name = f.architecture == "bert" ? "Bert" : "ModernBert";
    out["architectures"] = json::array({name + "ForSequenceClassification"});
    write_labels(f, out);
  }
  if (!f.status().ok()) return f.status();
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

GgufTexts::Embedding embedding_of(const Gguf& gguf) {
  const std::string architecture = *gguf.get<std::string>("general.architecture");
  const auto* normalized = gguf.get<bool>(architecture + ".normalize_embeddings");  // Ollama's
  const int64_t pooling = number_of(gguf, architecture + ".pooling_type").value_or(0);
  return {pooling == kRank ? 0 : pooling, !normalized || *normalized};
}

}  // namespace weir::llm
