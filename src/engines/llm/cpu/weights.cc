#include "engines/llm/cpu/weights.h"

#include "engines/llm/cpu/parameter_reader.h"

namespace weir::llm {
namespace {

Layer load_layer(const Shape& s, const std::string& prefix, ParameterReader& load, Keep keep) {
  using Bias = ParameterReader::Bias;
  auto bias = [](bool is) { return is ? Bias::kYes : Bias::kNo; };
  const uint32_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim, wide = (s.intermediate + 15) / 16 * 32;
  const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
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
  layer.gate_up = load.matrix(wide, s.hidden,
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
    w.layers.push_back(load_layer(shape, root + "layers." + std::to_string(i) + ".", load, keep));
  if (!load.status().ok()) return load.status();
  if (auto s = store.intact(); !s.ok()) return s;
  return w;
}

}  // namespace weir::llm
