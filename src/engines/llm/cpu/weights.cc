#include "engines/llm/cpu/weights.h"

#include "engines/llm/cpu/parameter_reader.h"
#include "engines/llm/load/expert_names.h"

namespace weir::llm {
namespace {

using Bias = ParameterReader::Bias;

// Gates and ups of an expert lie in two arrays, or row by row in one.
void add_gate_up(const ExpertNames& names, const std::string& expert, uint32_t width, uint32_t first_panel,
                 const Store& store, std::vector<ParameterReader::Part>& parts) {
  const std::string both = expert + "gate_up_proj";
  if (store.has(both + ".weight") || store.has(both + ".blocks")) {
    parts.push_back({both, 2 * width, first_panel, Lay::kInTurn});
    return;
  }
  parts.push_back({expert + names.gate, width, first_panel, Lay::kEveryOtherPanel});
  parts.push_back({expert + names.up, width, first_panel + 1, Lay::kEveryOtherPanel});
}

ExpertWeights load_experts(const Shape& s, const std::string& prefix, const Store& store, ParameterReader& load,
                           Keep keep) {
  const ExpertShape& e = *s.experts;
  const ExpertNames names = expert_names(s);
  const std::string mixture = prefix + names.mixture;
  const uint32_t wide = gated_outputs(e.width), out = (s.hidden + 15) / 16 * 16;
  const Bias bias = e.biased ? Bias::kYes : Bias::kNo;
  std::vector<ParameterReader::Part> gate_up, down;
  for (uint32_t i = 0; i < e.count; ++i) {
    const std::string expert = mixture + "experts." + std::to_string(i) + ".";
    add_gate_up(names, expert, e.width, i * (wide / 16), store, gate_up);
    down.push_back({expert + names.down, s.hidden, i * out});
  }
  ExpertWeights to;
  to.router = load.matrix(e.count, s.hidden, {{mixture + "gate", e.count}}, bias);
  to.gate_up = load.matrix(e.count * wide, s.hidden, gate_up, bias, keep);
  to.down = load.matrix(e.count * out, e.width, down, bias, keep);
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

std::vector<float> load_norm(const Shape& s, const std::string& name, uint32_t width, ParameterReader& load) {
  auto weight = load.floats(name + ".weight", {width});
  if (s.norms_less_one)
    for (float& w : weight) w += 1;
  return weight;
}

void load_norms(const Shape& s, const std::string& prefix, ParameterReader& load, Layer& layer) {
  auto norm = [&](const char* name, uint32_t width) { return load_norm(s, prefix + name, width, load); };
  if (s.norms != Norms::kOutputs) layer.input_norm = norm("input_layernorm", s.hidden);
  auto after_attention = norm("post_attention_layernorm", s.hidden);
  if (s.norms != Norms::kInputs) {
    layer.attention_norm = std::move(after_attention);
    if (s.norms == Norms::kBoth) layer.post_norm = norm("pre_feedforward_layernorm", s.hidden);
    layer.mlp_norm = norm("post_feedforward_layernorm", s.hidden);
  } else {
    layer.post_norm = std::move(after_attention);
  }
  if (s.qk_norm) {
    layer.q_norm = norm("self_attn.q_norm", s.qk_norm_whole ? s.heads * s.head_dim : s.head_dim);
    layer.k_norm = norm("self_attn.k_norm", s.qk_norm_whole ? s.kv_heads * s.head_dim : s.head_dim);
  }
}

// A folder calls them without ".weight".
std::vector<float> load_sinks(const Shape& s, const std::string& attention, const Store& store, ParameterReader& load) {
  const std::string name = attention + "sinks";
  return load.floats(store.has(name) ? name : name + ".weight", {s.heads});
}

Layer load_layer(const Shape& s, uint32_t index, const std::string& prefix, const Store& store, ParameterReader& load,
                 Keep keep) {
  auto bias = [](bool is) { return is ? Bias::kYes : Bias::kNo; };
  const uint32_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
  const std::string attention = prefix + "self_attn.";
  Layer layer;
  load_norms(s, prefix, load, layer);
  if (s.sinks) layer.sinks = load_sinks(s, attention, store, load);
  if (s.fused)
    layer.qkv = load.matrix(q + 2 * kv, s.hidden, {{attention + "qkv_proj", q + 2 * kv}}, bias(s.qkv_bias), keep);
  else
    layer.qkv =
        load.matrix(q + 2 * kv, s.hidden,
                    {{attention + "q_proj", q}, {attention + "k_proj", kv, q}, {attention + "v_proj", kv, q + kv}},
                    bias(s.qkv_bias), keep);
  layer.out = load.matrix(s.hidden, q, {{attention + "o_proj", s.hidden}}, bias(s.out_bias), keep);
  if (s.is_mixture(index)) {
    layer.experts = load_experts(s, prefix, store, load, keep);
    return layer;
  }
  const std::string mlp = prefix + "mlp.";
  const uint32_t wide = gated_outputs(s.intermediate);
  if (s.fused)
    layer.gate_up = load.matrix(wide, s.hidden, {{mlp + "gate_up_proj", 2 * s.intermediate, 0, Lay::kHalves}},
                                bias(s.mlp_bias), keep);
  else
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
    w.head =
        load.matrix(shape.vocabulary, shape.hidden, {{head_of(store), shape.vocabulary}}, ParameterReader::Bias::kNo);
  w.norm = load_norm(shape, root + "norm", shape.hidden, load);
  for (uint32_t i = 0; i < shape.layers && load.status().ok(); ++i)
    w.layers.push_back(load_layer(shape, i, root + "layers." + std::to_string(i) + ".", store, load, keep));
  if (!load.status().ok()) return load.status();
  if (auto s = store.intact(); !s.ok()) return s;
  return w;
}

uint64_t Weights::bytes() const {
  uint64_t out = embedding.bytes() + head.bytes();
  for (const auto& layer : layers) {
    for (const auto* matrix : {&layer.qkv, &layer.out, &layer.gate_up, &layer.down}) out += matrix->bytes();
    const auto& e = layer.experts;
    for (const auto* matrix : {&e.router, &e.gate_up, &e.down, &e.shared_gate, &e.shared_gate_up, &e.shared_down})
      out += matrix->bytes();
  }
  return out;
}

}  // namespace weir::llm
