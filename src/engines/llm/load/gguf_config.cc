#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/encoding.h"
#include "engines/llm/load/gguf_texts.h"

namespace weir::llm {
namespace {

using nlohmann::json;

base::Status unsupported(const std::string& field, const std::string& what) {
  return base::failure(base::Code::kUnimplemented, "GGUF: '" + field + "' " + what);
}

// Tokens after which no answer goes on, by their names, since files name one or two of several.
constexpr std::string_view kEnds[] = {
    "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>",       "<|im_end|>", "<|end|>", "<|endoftext|>", "<end_of_turn>",
    "<EOT>",      "<|eot|>",    "<｜end▁of▁sentence｜>", "</s>"};

class ConfigWriter {
 public:
  explicit ConfigWriter(const Gguf& gguf) : gguf_(gguf) {}

  base::Result<std::string> write() {
    set_architecture();
    if (status_.ok()) set_sizes();
    if (status_.ok()) set_experts();
    if (status_.ok()) set_attention();
    if (status_.ok()) set_rope();
    if (!status_.ok()) return status_;
    set_ends();
    return out_.dump(-1, ' ', false, json::error_handler_t::replace);
  }

 private:
  void fail(const base::Status& status) {
    if (status_.ok()) status_ = status;
  }
  std::string key(std::string_view name) const { return arch_ + "." + std::string(name); }

  // A whole number, or a list with one for each layer that are all the same.
  std::optional<int64_t> whole(const std::string& name) {
    if (!gguf_.has(name)) return {};
    if (auto number = number_of(gguf_, name)) return number;
    fail(gguf_.get<std::vector<int64_t>>(name) ? unsupported(name, "differs from layer to layer")
                                               : base::invalid("GGUF: '" + name + "' is no whole number"));
    return {};
  }
  std::optional<double> real(const std::string& name) {
    if (!gguf_.has(name)) return {};
    if (auto number = gguf_.get<double>(name)) return *number;
    if (auto number = gguf_.get<int64_t>(name)) return double(*number);
    fail(base::invalid("GGUF: '" + name + "' is no number"));
    return {};
  }
  const std::string* text(const std::string& name) {
    auto found = gguf_.get<std::string>(name);
    if (!found && gguf_.has(name)) fail(base::invalid("GGUF: '" + name + "' is no text"));
    return found;
  }
  void put(const char* name, std::string_view field) {
    if (auto number = whole(key(field))) out_[name] = *number;
  }
  void need(const char* name, std::string_view field) {
    put(name, field);
    if (!out_.contains(name)) fail(base::invalid("GGUF: no field '" + key(field) + "'"));
  }
  void refuse(std::string_view field, const std::string& why) {
    if (auto number = real(key(field)); number && *number != 0) fail(unsupported(key(field), why));
  }

  void set_architecture() {
    if (const auto* type = text("general.type"); type && *type != "model")
      return fail(
          unsupported("general.type", "is \"" + base::presentable(*type, 40) + "\", which is no model of text"));
    const auto* architecture = text("general.architecture");
    if (!architecture) return fail(base::invalid("GGUF: no field 'general.architecture'"));
    arch_ = *architecture;
    has_experts_ = whole(key("expert_count")).value_or(0) > 0;
    const std::string_view ours = arch_ == "llama"      ? has_experts_ ? "MixtralForCausalLM" : "LlamaForCausalLM"
                                  : arch_ == "qwen2"    ? "Qwen2ForCausalLM"
                                  : arch_ == "qwen3"    ? "Qwen3ForCausalLM"
                                  : arch_ == "qwen2moe" ? "Qwen2MoeForCausalLM"
                                  : arch_ == "qwen3moe" ? "Qwen3MoeForCausalLM"
                                                        : "";
    if (ours.empty())
      return fail(unsupported(
          "general.architecture",
          "is \"" + base::presentable(arch_, 40) + "\"; known here are llama, qwen2, qwen3, qwen2moe and qwen3moe"));
    if (has_experts_ && (arch_ == "qwen2" || arch_ == "qwen3"))
      return fail(unsupported(key("expert_count"), "is not supported"));
    out_["architectures"] = json::array({ours});
    if (gguf_.has(key("pooling_type")) && whole(key("pooling_type")).value_or(0) != 0)
      fail(unsupported(key("pooling_type"), "makes it a model of embeddings, which is served from safetensors alone"));
    if (auto causal = gguf_.get<bool>(key("attention.causal")); causal && !*causal)
      fail(unsupported(key("attention.causal"), "is false, which is not supported"));
    for (auto field : {"attn_logit_softcapping", "final_logit_softcapping", "logit_scale", "embedding_scale",
                       "residual_scale", "attention.scale", "expert_weights_scale"})
      refuse(field, "is not supported");
  }

  const Array* tensor(const std::string& name) const {
    auto found = gguf_.tensors.find(name);
    return found == gguf_.tensors.end() ? nullptr : &found->second;
  }

  void set_sizes() {
    need("hidden_size", "embedding_length");
    need("num_hidden_layers", "block_count");
    need("intermediate_size", is_qwen_mixture() ? "expert_feed_forward_length" : "feed_forward_length");
    need("max_position_embeddings", "context_length");
    const Array* embedding = tensor("token_embd.weight");
    if (!embedding) return fail(base::invalid("GGUF: no tensor 'token_embd.weight'"));
    out_["vocab_size"] = embedding->shape[0];
    out_["tie_word_embeddings"] = !tensor("output.weight");
    out_["mlp_bias"] = tensor("blk.0.ffn_up.bias") != nullptr;
    auto epsilon = real(key("attention.layer_norm_rms_epsilon"));
    if (!epsilon) return fail(base::invalid("GGUF: no field '" + key("attention.layer_norm_rms_epsilon") + "'"));
    out_["rms_norm_eps"] = *epsilon;
  }

  // All layers of a mixture are mixtures here, so that there is one width.
  bool is_qwen_mixture() const { return arch_ == "qwen2moe" || arch_ == "qwen3moe"; }
  void set_experts() {
    if (!has_experts_ && !is_qwen_mixture()) return;
    need(is_qwen_mixture() ? "num_experts" : "num_local_experts", "expert_count");
    need("num_experts_per_tok", "expert_used_count");
    if (!is_qwen_mixture()) return;
    out_["moe_intermediate_size"] = out_["intermediate_size"];
    out_["norm_topk_prob"] = arch_ == "qwen3moe";
    if (arch_ == "qwen2moe") need("shared_expert_intermediate_size", "expert_shared_feed_forward_length");
  }

  void set_attention() {
    need("num_attention_heads", "attention.head_count");
    put("num_key_value_heads", "attention.head_count_kv");
    put("head_dim", "attention.key_length");
    if (!status_.ok()) return;
    const int64_t heads = std::max<int64_t>(out_["num_attention_heads"].get<int64_t>(), 1);
    const int64_t dim = out_.value("head_dim", out_["hidden_size"].get<int64_t>() / heads);
    for (auto field : {"attention.value_length", "rope.dimension_count"})
      if (auto other = whole(key(field)); other && *other != dim)
        fail(unsupported(key(field), "is not the size of a head, " + std::to_string(dim)));
    if (!arch_.starts_with("qwen2")) out_["attention_bias"] = tensor("blk.0.attn_q.bias") != nullptr;
    if (auto window = whole(key("attention.sliding_window")); window && *window > 0) {
      out_["sliding_window"] = *window;
      if (arch_ == "llama" && !has_experts_)
        out_["architectures"] = json::array({"MistralForCausalLM"});
      else if (arch_ != "llama")
        out_["use_sliding_window"] = true, out_["max_window_layers"] = 0;
    }
  }

  void set_rope() {
    if (auto base = real(key("rope.freq_base"))) out_["rope_theta"] = *base;
    if (tensor("rope_factors_long.weight")) return fail(unsupported("rope_factors_long.weight", "is not supported"));
    const auto* type = text(key("rope.scaling.type"));
    auto factor = real(key("rope.scaling.factor"));
    if (!factor && !type) factor = real(key("rope.scale_linear"));
    json scaling;
    if (type && *type != "none")
      scaling["rope_type"] = *type;
    else if (!type && factor && *factor != 1)
      scaling["rope_type"] = "linear";
    if (const Array* factors = tensor("rope_freqs.weight")) {
      if (!scaling.is_null()) return fail(unsupported("rope_freqs.weight", "is not supported beside another scaling"));
      return set_factors(*factors);
    }
    if (scaling.is_null()) return;
    if (factor) scaling["factor"] = *factor;
    if (scaling["rope_type"] == "yarn") set_yarn(scaling, factor.value_or(1));
    out_["rope_scaling"] = std::move(scaling);
  }

  // Llama 3.1's files have the scaling as what each frequency is divided by.
  void set_factors(const Array& factors) {
    if (factors.dtype != Stored::kF32 || factors.elements() > 1024)
      return fail(base::invalid("GGUF: 'rope_freqs.weight' is no list of factors"));
    std::vector<float> numbers(factors.elements());
    read_floats(factors, 0, numbers.size(), numbers.data());
    out_["rope_scaling"] = {{"rope_type", "factors"}, {"factors", numbers}};
  }

  void set_yarn(json& scaling, double factor) {
    if (auto length = whole(key("rope.scaling.original_context_length")))
      scaling["original_max_position_embeddings"] = *length;
    for (auto [ours, theirs] :
         {std::pair{"beta_fast", "rope.scaling.yarn_beta_fast"}, std::pair{"beta_slow", "rope.scaling.yarn_beta_slow"}})
      if (auto number = real(key(theirs))) scaling[ours] = *number;
    if (auto part = real(key("rope.scaling.yarn_ext_factor")); part && *part >= 0 && *part != 1)
      fail(unsupported(key("rope.scaling.yarn_ext_factor"), "is not 1"));
    auto magnitude = real(key("rope.scaling.attn_factor"));
    if (!magnitude) magnitude = real(key("rope.scaling.yarn_attn_factor"));
    if (magnitude && factor > 1) scaling["attention_factor"] = *magnitude * (1 + 0.1 * std::log(factor));
  }

  void set_ends() {
    std::vector<int64_t> ids;
    const auto* tokens = gguf_.get<std::vector<std::string>>("tokenizer.ggml.tokens");
    const auto* types = gguf_.get<std::vector<int64_t>>("tokenizer.ggml.token_type");
    auto add = [&](int64_t id) {
      if (id >= 0 && id < out_["vocab_size"].get<int64_t>() && std::count(ids.begin(), ids.end(), id) == 0)
        ids.push_back(id);
    };
    for (auto name : {"eos", "eot", "eom"})
      if (auto id = gguf_.get<int64_t>("tokenizer.ggml." + std::string(name) + "_token_id")) add(*id);
    constexpr int64_t kControl = 3, kUserDefined = 4;  // converters take either for tokens that were added
    constexpr size_t kMost = 64;
    for (size_t i = 0; tokens && types && i < std::min(tokens->size(), types->size()) && ids.size() <= kMost; ++i)
      if (((*types)[i] == kControl || (*types)[i] == kUserDefined) &&
          std::find(std::begin(kEnds), std::end(kEnds), (*tokens)[i]) != std::end(kEnds))
        add(int64_t(i));
    if (ids.size() <= kMost) out_["eos_token_id"] = ids;
  }

  const Gguf& gguf_;
  base::Status status_;
  std::string arch_;
  bool has_experts_ = false;
  json out_;
};

}  // namespace

base::Result<std::string> config_of(const Gguf& gguf) { return ConfigWriter(gguf).write(); }

}  // namespace weir::llm
