#include "engines/llm/cpu/weights.h"

#include "engines/llm/cpu/parameter_reader.h"

namespace weir::llm {
namespace {

using Bias = ParameterReader::Bias;

// Gates and ups lie side by side, in panels.
uint32_t gated_outputs(uint32_t width) { return (width + 15) / 16 * 32; }

struct ExpertNames {
  std::string mixture, gate, up, down;
};

ExpertNames expert_names(const Shape& s) {
  if (s.architecture == "MixtralForCausalLM") return {"block_sparse_moe.", "w1", "w3", "w2"};
  return {"mlp.", "gate_proj", "up_proj", "down_proj"};
}

ExpertWeights load_experts(const Shape& s, const std::string& prefix, ParameterReader& load, Keep keep) {
  const ExpertShape& e = *s.experts;
  const ExpertNames names = expert_names(s);
  const std::string mixture = prefix + names.mixture;
  const uint32_t wide = gated_outputs(e.width), out = (s.hidden + 15) / 16 * 16;
  std::vector<ParameterReader::Part> gate_up, down;
  for (uint32_t i = 0; i < e.count; ++i) {
    const std::string expert = mixture + "experts." + std::to_string(i) + ".";
    gate_up.push_back({expert + names.gate, e.width, i * (wide / 16), Lay::kEveryOtherPanel});
    gate_up.push_back({expert + names.up, e.width, i * (wide / 16) + 1, Lay::kEveryOtherPanel});
    down.push_back({expert + names.down, s.hidden, i * out});
  }
  ExpertWeights to;
  to.router = load.matrix(e.count, s.hidden, {{mixture + "gate", e.count}}, Bias::kNo);
  to.gate_up = load.matrix(e.count * wide, s.hidden, gate_up, Bias::kNo, keep);
  to.down = load.matrix(e.count * out, e.width, down, Bias::kNo, keep);
  if (e.shared_width == 0) return to;
  const std::string shared = mixture + "shared_expert.";
  to.shared_gate = load.matrix(1, s.hidden, {{mixture + "shared_expert_gate", 1}}, Bias::kNo);
  to.shared_gate_up = load.matrix(gated_outputs(e.shared_width), s.hidden,
                                  {{shared + names.gate, e.shared_width, 0, Lay::kEveryOtherPanel},
                                   {shared + names.up, e.shared_width, 1, Lay::kEveryOtherPanel}},
                                  Bias::kNo, keep);
  to.shared_down = load.matrix(s.hidden, e.shared_width, {{shared + names.down, s.hidden}}, Bias::kNo, keep);
  return to;
}

Layer load_layer(const Shape& s, uint32_t index, const std::string& prefix, ParameterReader& load, Keep keep) {
  auto bias = [](bool is) { return is ? Bias::kYes : Bias::kNo; };
  const uint32_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
  const std::string attention = prefix + "self_attn.";
  Layer layer;
  layer.input_norm = load.floats(prefix + "input_layernorm.weight", {s.hidden});
  layer.post_norm = load.floats(prefix + "post_attention_layernorm.weight", {s.hidden});
  if (s.qk_norm) {
    layer.q_norm = load.floats(attention + "q_norm.weight", {s.head_dim});
    layer.k_norm = load.floats(attention + "k_norm.weight", {s.head_dim});
  }
  layer.qkv =
      load.matrix(q + 2 * kv, s.hidden,
                  {{attention + "q_proj", q}, {attention + "k_proj", kv, q}, {attention + "v_proj", kv, q + kv}},
                  bias(s.qkv_bias), keep);
  layer.out = load.matrix(s.hidden, q, {{attention + "o_proj", s.hidden}}, bias(s.out_bias), keep);
  if (s.is_mixture(index)) {
    layer.experts = load_experts(s, prefix, load, keep);
    return layer;
  }
  const std::string mlp = prefix + "mlp.";
  layer.gate_up = load.matrix(gated_outputs(s.intermediate), s.hidden,
                              {{mlp + "gate_proj", s.intermediate, 0, Lay::kEveryOtherPanel},
                               {mlp + "up_proj", s.intermediate, 1, Lay::kEveryOtherPanel}},
                              bias(s.mlp_bias), keep);
  layer.down = load.matrix(s.hidden, s.intermediate, {{mlp + "down_proj", s.hidden}}, bias(s.mlp_bias), keep);
  return layer;
}

}  // namespace

base::Result<Weights> load_weights(const Shape& shape, const Store& store, WeightFormat form, ThreadTeam& team,
                                   Keep keep) {
  ParameterReader load(store, form, team, shape.quantization);
  Weights w;
  const std::string root = root_of(store);
  w.embedding = load.matrix(shape.vocabulary, shape.hidden, {{root + "embed_tokens", shape.vocabulary}},
                            ParameterReader::Bias::kNo);
  if (!shape.tied && !shape.encoder)
    w.head = load.matrix(shape.vocabulary, shape.hidden, {{"lm_head", shape.vocabulary}}, ParameterReader::Bias::kNo);
  w.norm = load.floats(root + "norm.weight", {shape.hidden});
  for (uint32_t i = 0; i < shape.layers && load.status().ok(); ++i)
    w.layers.push_back(load_layer(shape, i, root + "layers." + std::to_string(i) + ".", load, keep));
  if (!load.status().ok()) return load.status();
  if (auto s = store.intact(); !s.ok()) return s;
  return w;
}

}  // namespace weir::llm
