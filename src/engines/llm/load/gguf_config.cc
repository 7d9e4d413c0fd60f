#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/encoding.h"
#include "engines/llm/load/gguf_encoders.h"
#include "engines/llm/load/gguf_families.h"
#include "engines/llm/load/gguf_texts.h"

namespace weir::llm {
namespace {

using nlohmann::json;

// Tokens after which no answer goes on, by their names, since files name one or two of several.
constexpr std::string_view kEnds[] = {
    "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>",       "<|im_end|>", "<|end|>",    "<|endoftext|>", "<end_of_turn>",
    "<EOT>",      "<|eot|>",    "<｜end▁of▁sentence｜>", "</s>",       "<|return|>", "<|call|>"};
constexpr std::string_view kEndOfMessage = "<|end|>";  // of gpt-oss, whose answers have several

class ConfigWriter {
 public:
  explicit ConfigWriter(const Gguf& gguf) : f_(gguf) {}

  base::Result<std::string> write() {
    set_architecture();
    if (f_.status().ok()) set_sizes();
    if (f_.status().ok()) set_experts();
    if (f_.status().ok()) set_attention();
    if (f_.status().ok()) write_rope(f_, out_);
    if (f_.status().ok()) write_family(f_, out_);
    if (!f_.status().ok()) return f_.status();
    set_ends();
    return out_.dump(-1, ' ', false, json::error_handler_t::replace);
  }

 private:
  std::string key(std::string_view name) const { return f_.key(name); }
  bool is(std::string_view architecture) const { return f_.architecture == architecture; }
  void put(const char* name, std::string_view field) {
    if (auto number = f_.whole(key(field))) out_[name] = *number;
  }
  void need(const char* name, std::string_view field) {
    put(name, field);
    if (!out_.contains(name)) f_.fail(base::invalid("GGUF: no field '" + key(field) + "'"));
  }

  void set_architecture() {
    if (const auto* type = f_.text("general.type"); type && *type != "model")
      return f_.unsupported("general.type", "is \"" + base::presentable(*type, 40) + "\", which is no model of text");
    const auto* architecture = f_.text("general.architecture");
    if (!architecture) return f_.fail(base::invalid("GGUF: no field 'general.architecture'"));
    const GgufFamily* family = gguf_family(*architecture);
    if (!family)
      return f_.unsupported("general.architecture", "is \"" + base::presentable(*architecture, 40) +
                                                        "\"; known here are " + known_gguf_families());
    f_.architecture = *architecture;
    out_["architectures"] = json::array({family->ours});
    has_experts_ = f_.whole(key("expert_count")).value_or(0) > 0;
    if (has_experts_ && !is("llama") && !is("granitemoe") && !is_gpt_oss(f_.architecture) && !is_qwen_mixture())
      return f_.unsupported(key("expert_count"), "is not supported");
    if (f_.whole(key("pooling_type")).value_or(0) != 0)
      f_.unsupported(key("pooling_type"), "makes it a model of embeddings, which is served from safetensors alone");
    if (auto causal = f_.file().get<bool>(key("attention.causal")); causal && !*causal)
      f_.unsupported(key("attention.causal"), "is false, which is not supported");
  }

  void set_sizes() {
    need("hidden_size", "embedding_length");
    need("num_hidden_layers", "block_count");
    const bool of_experts = is_qwen_mixture() || (is("gpt-oss") && f_.has(key("expert_feed_forward_length")));
    need("intermediate_size", of_experts ? "expert_feed_forward_length" : "feed_forward_length");
    need("max_position_embeddings", "context_length");
    const Array* embedding = f_.tensor("token_embd.weight");
    if (!embedding) return f_.fail(base::invalid("GGUF: no tensor 'token_embd.weight'"));
    out_["vocab_size"] = embedding->shape[0];
    out_["tie_word_embeddings"] = !f_.tensor("output.weight");
    out_["mlp_bias"] = f_.tensor("blk.0.ffn_up.bias") != nullptr;
    auto epsilon = f_.real(key("attention.layer_norm_rms_epsilon"));
    if (!epsilon && is("gemma3")) epsilon = 1e-6;  // Ollama's files do not say it
    if (!epsilon) return f_.fail(base::invalid("GGUF: no field '" + key("attention.layer_norm_rms_epsilon") + "'"));
    out_["rms_norm_eps"] = *epsilon;
  }

  // All layers of a mixture are mixtures here, so that there is one width.
  bool is_qwen_mixture() const { return is("qwen2moe") || is("qwen3moe"); }
  void set_experts() {
    if (!has_experts_ && !is_qwen_mixture()) return;
    need(is_qwen_mixture() ? "num_experts" : "num_local_experts", "expert_count");
    need("num_experts_per_tok", "expert_used_count");
    if (!is_qwen_mixture()) return;
    out_["moe_intermediate_size"] = out_["intermediate_size"];
    out_["norm_topk_prob"] = is("qwen3moe");
    if (is("qwen2moe")) need("shared_expert_intermediate_size", "expert_shared_feed_forward_length");
  }

  void set_attention() {
    need("num_attention_heads", "attention.head_count");
    put("num_key_value_heads", "attention.head_count_kv");
    put("head_dim", "attention.key_length");
    if (!f_.status().ok()) return;
    if (!out_.contains("num_key_value_heads")) out_["num_key_value_heads"] = out_["num_attention_heads"];
    const int64_t heads = std::max<int64_t>(out_["num_attention_heads"].get<int64_t>(), 1);
    const int64_t dim = out_.value("head_dim", out_["hidden_size"].get<int64_t>() / heads);
    for (auto field : {"attention.value_length", "rope.dimension_count"})
      if (auto other = f_.whole(key(field)); other && *other != dim) set_other_size(field, *other, dim);
    if (!f_.architecture.starts_with("qwen2"))
      out_["attention_bias"] = f_.tensor("blk.0.attn_q.bias") || f_.tensor("blk.0.attn_qkv.bias");
  }

  // Heads of Phi-3 may turn in part.
  void set_other_size(std::string_view field, int64_t size, int64_t dim) {
    if (field != "rope.dimension_count" || !is("phi3") || size < 0 || size > dim)
      return f_.unsupported(key(field), "is not the size of a head, " + std::to_string(dim));
    out_["partial_rotary_factor"] = (double(size) + 0.5) / double(dim);  // the product is cut down to a whole number
  }

  void set_ends() {
    std::vector<int64_t> ids;
    const auto* tokens = f_.file().get<std::vector<std::string>>("tokenizer.ggml.tokens");
    const auto* types = f_.file().get<std::vector<int64_t>>("tokenizer.ggml.token_type");
    auto add = [&](int64_t id) {
      if (id >= 0 && id < out_["vocab_size"].get<int64_t>() && std::count(ids.begin(), ids.end(), id) == 0)
        ids.push_back(id);
    };
    for (auto name : {"eos", "eot", "eom"})
      if (auto id = f_.file().get<int64_t>("tokenizer.ggml." + std::string(name) + "_token_id")) add(*id);
    constexpr int64_t kControl = 3, kUserDefined = 4;  // converters take either for tokens that were added
    constexpr size_t kMost = 64;
    for (size_t i = 0; tokens && types && i < std::min(tokens->size(), types->size()) && ids.size() <= kMost; ++i)
      if (((*types)[i] == kControl || (*types)[i] == kUserDefined) &&
          std::find(std::begin(kEnds), std::end(kEnds), (*tokens)[i]) != std::end(kEnds) &&
          !(is_gpt_oss(f_.architecture) && (*tokens)[i] == kEndOfMessage))
        add(int64_t(i));
    if (ids.size() <= kMost) out_["eos_token_id"] = ids;
  }

  GgufFields f_;
  bool has_experts_ = false;
  json out_;
};

}  // namespace

base::Result<std::string> config_of(const Gguf& gguf) {
  return is_gguf_encoder(gguf) ? encoder_config_of(gguf) : ConfigWriter(gguf).write();
}

}  // namespace weir::llm
