#include <cstring>

#include "engines/llm/cpu/parameter_reader.h"
#include "engines/llm/encoder/bert.h"
#include "msg/half.h"

namespace weir::llm {
namespace {

// The oldest files call a norm's weight gamma and its bias beta.
LayerNorm read_norm(const std::string& name, uint32_t n, const Store& store, ParameterReader& load) {
  const bool old = store.has(name + ".gamma");
  return {load.floats(name + (old ? ".gamma" : ".weight"), {n}), load.floats(name + (old ? ".beta" : ".bias"), {n})};
}

BertLayer read_layer(const BertShape& s, const std::string& prefix, const Store& store, ParameterReader& load) {
  constexpr auto kBias = ParameterReader::Bias::kYes;
  const uint32_t h = s.hidden;
  const BertNames& names = s.names;
  auto named = [&](std::string_view part) { return prefix + std::string(part); };
  BertLayer layer;
  layer.qkv =
      load.matrix(3 * h, h, {{named(names.query), h}, {named(names.key), h, h}, {named(names.value), h, 2 * h}}, kBias);
  layer.out = load.matrix(h, h, {{named(names.out), h}}, kBias);
  layer.attention_norm = read_norm(named(names.attention_norm), h, store, load);
  layer.up = load.matrix(s.intermediate, h, {{named(names.up), s.intermediate}}, kBias);
  layer.down = load.matrix(h, s.intermediate, {{named(names.down), h}}, kBias);
  layer.norm = read_norm(named(names.norm), h, store, load);
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
  const std::string first = "embeddings.word_embeddings.weight";
  const std::string root = store.has(first) ? "" : s.outer, embeddings = root + "embeddings.";
  BertWeights w;
  auto words = read_words(s, root + first, store, form, team);
  if (!words) return words.error();
  w.words = std::move(*words);
  w.positions = load.floats(embeddings + "position_embeddings.weight", {s.positions, s.hidden});
  if (s.types > 0) w.types = load.floats(embeddings + "token_type_embeddings.weight", {s.types, s.hidden});
  w.norm = read_norm(embeddings + "LayerNorm", s.hidden, store, load);
  for (uint32_t i = 0; i < s.layers && load.status().ok(); ++i)
    w.layers.push_back(read_layer(s, root + std::string(s.names.layers) + std::to_string(i) + ".", store, load));
  if (!load.status().ok()) return load.status();
  if (auto intact = store.intact(); !intact.ok()) return intact;
  return w;
}

}  // namespace weir::llm
