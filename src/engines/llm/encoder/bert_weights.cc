#include <cstring>

#include "engines/llm/cpu/parameter_reader.h"
#include "engines/llm/encoder/bert.h"
#include "msg/half.h"

namespace weir::llm {
namespace {

// The oldest files call a norm's weight gamma and its bias beta.
LayerNorm read_norm(const BertShape& s, const std::string& name, const Store& store, ParameterReader& load) {
  const bool old = store.has(name + ".gamma");
  LayerNorm norm{load.floats(name + (old ? ".gamma" : ".weight"), {s.hidden}), std::vector<float>(s.hidden)};
  if (s.norms_biased) norm.bias = load.floats(name + (old ? ".beta" : ".bias"), {s.hidden});
  return norm;
}

Matrix read_qkv(const BertShape& s, const std::string& prefix, ParameterReader::Bias bias, ParameterReader& load) {
  const uint32_t h = s.hidden;
  auto named = [&](std::string_view part) { return prefix + std::string(part); };
  const BertNames& names = s.names;
  if (!names.qkv.empty()) return load.matrix(3 * h, h, {{named(names.qkv), 3 * h}}, bias);
  return load.matrix(3 * h, h, {{named(names.query), h}, {named(names.key), h, h}, {named(names.value), h, 2 * h}},
                     bias);
}

Matrix read_up(const BertShape& s, const std::string& prefix, ParameterReader::Bias bias, ParameterReader& load) {
  const uint32_t n = s.intermediate, wide = gated_outputs(n);
  const std::string up = prefix + std::string(s.names.up);
  if (!s.gated) return load.matrix(n, s.hidden, {{up, n}}, bias);
  if (s.names.gate.empty()) return load.matrix(wide, s.hidden, {{up, 2 * n, 0, Lay::kHalves}}, bias);
  return load.matrix(
      wide, s.hidden,
      {{prefix + std::string(s.names.gate), n, 0, Lay::kEveryOtherPanel}, {up, n, 1, Lay::kEveryOtherPanel}}, bias);
}

BertLayer read_layer(const BertShape& s, uint32_t index, const std::string& prefix, const Store& store,
                     ParameterReader& load) {
  const auto bias = s.biased ? ParameterReader::Bias::kYes : ParameterReader::Bias::kNo;
  const uint32_t h = s.hidden;
  const BertNames& names = s.names;
  auto named = [&](std::string_view part) { return prefix + std::string(part); };
  BertLayer layer;
  layer.qkv = read_qkv(s, prefix, bias, load);
  layer.out = load.matrix(h, h, {{named(names.out), h}}, bias);
  if (!s.norms_first || index > 0) layer.attention_norm = read_norm(s, named(names.attention_norm), store, load);
  layer.up = read_up(s, prefix, bias, load);
  layer.down = load.matrix(h, s.intermediate, {{named(names.down), h}}, bias);
  layer.norm = read_norm(s, named(names.norm), store, load);
  return layer;
}

base::Result<Memory> read_words(const BertShape& s, const std::string& name, const Store& store, WeightFormat form,
                                ThreadTeam& team) {
  auto array = store.find(name, {s.vocabulary, s.hidden});
  if (!array) return array.error();
  Memory words(size_t(s.vocabulary) * s.hidden * size_of(form));
  if (!words) return base::failure(base::Code::kResourceExhausted, "no memory for the model's weights");
  team.run(s.vocabulary, 256, [&](uint32_t from, uint32_t to, uint32_t) {
    std::vector<float> row(s.hidden);
    for (uint32_t id = from; id < to; ++id) {
      const size_t at = size_t(id) * s.hidden;
      read_floats(**array, at, s.hidden, row.data());
      if (form == WeightFormat::kF32)
        std::memcpy(words.as<float>() + at, row.data(), row.size() * sizeof(float));
      else
        for (uint32_t d = 0; d < s.hidden; ++d) words.as<uint16_t>()[at + d] = msg::bf16_from(row[d]);
    }
  });
  return words;
}

}  // namespace

base::Result<BertWeights> load_bert_weights(const BertShape& s, const Store& store, WeightFormat form,
                                            ThreadTeam& team) {
  ParameterReader load(store, form, team);
  const std::string first = std::string(s.names.words) + ".weight";
  const std::string root = store.has(first) ? "" : s.outer, embeddings = root + "embeddings.";
  BertWeights w;
  auto words = read_words(s, root + first, store, form, team);
  if (!words) return words.error();
  w.words = std::move(*words);
  if (!s.turns()) w.positions = load.floats(embeddings + "position_embeddings.weight", {s.positions, s.hidden});
  if (s.types > 0) w.types = load.floats(embeddings + "token_type_embeddings.weight", {s.types, s.hidden});
  w.norm = read_norm(s, root + std::string(s.names.words_norm), store, load);
  for (uint32_t i = 0; i < s.layers && load.status().ok(); ++i)
    w.layers.push_back(read_layer(s, i, root + std::string(s.names.layers) + std::to_string(i) + ".", store, load));
  if (!s.names.last_norm.empty()) w.last_norm = read_norm(s, root + std::string(s.names.last_norm), store, load);
  if (!load.status().ok()) return load.status();
  if (auto intact = store.intact(); !intact.ok()) return intact;
  return w;
}

}  // namespace weir::llm
