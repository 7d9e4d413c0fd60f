// Kernels of encoders: embeddings of texts, norms, GELU, attention in both directions.
#include <cmath>

#include "both.h"

namespace weir::gpu {
namespace {

using namespace llm::cuda;

void check_embed_text(Lab& lab, uint32_t tokens, uint32_t hidden) {
  Both words(lab, some_bf16(lab, size_t(50) * hidden));
  Both types(lab, some_floats(lab, size_t(2) * hidden)), places(lab, some_floats(lab, size_t(tokens) * hidden));
  Both ids(lab, some_below(lab, tokens, 50)), kinds(lab, some_below(lab, tokens, 2));
  Both positions(lab, some_below(lab, tokens, tokens));
  Both<float> stream(lab, size_t(tokens) * hidden);
  for (bool typed : {true, false}) {
    run(lab, &Kernels::embed_text, [&](Side s) {
      return EmbedText{stream.at(s),    words.at(s), typed ? types.at(s) : nullptr,
                       places.at(s),    ids.at(s),   typed ? kinds.at(s) : nullptr,
                       positions.at(s), tokens,      hidden};
    });
    lab.check("embed text " + std::to_string(tokens) + "x" + std::to_string(hidden), stream.error(lab), 1e-6);
  }
}

void check_layer_norm(Lab& lab, uint32_t tokens, uint32_t hidden) {
  std::string shape = " " + std::to_string(tokens) + "x" + std::to_string(hidden);
  Both stream(lab, some_floats(lab, size_t(tokens) * hidden));
  Both weight(lab, some_floats(lab, hidden)), bias(lab, some_floats(lab, hidden));
  Both<Bf16> out(lab, stream.host.size());
  run(lab, &Kernels::layer_norm,
      [&](Side s) { return LayerNorm{stream.at(s), weight.at(s), bias.at(s), out.at(s), tokens, hidden, 1e-12f}; });
  lab.check("layer norm" + shape, out.error(lab), kOneStep);
  lab.check("layer norm, the stream" + shape, stream.error(lab), 1e-5);
}

void check_gelu(Lab& lab, uint32_t tokens, uint32_t width) {
  for (auto curve : {Gelu::kExact, Gelu::kTanh}) {
    Both rows(lab, some_bf16(lab, size_t(tokens) * width, 3));
    Both bias(lab, some_floats(lab, width));
    run(lab, &Kernels::gelu, [&](Side s) { return Gelu{rows.at(s), bias.at(s), tokens, width, curve}; });
    lab.check("gelu " + std::to_string(tokens) + "x" + std::to_string(width), rows.error(lab), kOneStep);
  }
}

// Texts of these lengths one after the other, each in blocks of its own.
void check_both_ways(Lab& lab, const std::vector<uint32_t>& lengths, uint32_t heads, uint32_t dim) {
  constexpr uint32_t kBlock = 16;
  std::vector<Chunk> texts;
  std::vector<Tile> parts;
  std::vector<uint32_t> table;
  uint32_t tokens = 0;
  for (uint32_t length : lengths) {
    for (uint32_t query = 0; query < length; query += kQueryTile) parts.push_back({uint32_t(texts.size()), query});
    texts.push_back({tokens, length, 0, uint32_t(table.size())});
    for (uint32_t i = 0; i < length; i += kBlock) table.push_back(uint32_t(table.size()));
    tokens += length;
  }
  const size_t row = size_t(heads) * dim;
  Both q(lab, some_bf16(lab, tokens * row));
  Both k(lab, some_bf16(lab, table.size() * kBlock * row)), v(lab, some_bf16(lab, table.size() * kBlock * row));
  Both tables(lab, table);
  Both chunks(lab, texts);
  Both tiles(lab, parts);
  Both<Bf16> out(lab, tokens * row);
  run(lab, &Kernels::prefill_attention, [&](Side s) {
    PrefillAttention a{q.at(s),
                       k.at(s),
                       v.at(s),
                       tables.at(s),
                       chunks.at(s),
                       tiles.at(s),
                       out.at(s),
                       uint32_t(parts.size()),
                       heads,
                       heads,
                       dim,
                       kBlock,
                       0,
                       1 / std::sqrt(float(dim))};
    a.mask = PrefillAttention::kBidirectional;
    return a;
  });
  lab.check("attention in both directions, " + std::to_string(heads) + "x" + std::to_string(dim), out.error(lab),
            2 * kOneStep);
}

}  // namespace

void check_encoder(Lab& lab) {
  const bool full = lab.scale == Lab::Scale::kFull;
  for (uint32_t hidden : full ? std::vector<uint32_t>{384, 768, 1024} : std::vector<uint32_t>{60, 384})
    for (uint32_t tokens : {1u, full ? 67u : 3u}) {
      check_embed_text(lab, tokens, hidden);
      check_layer_norm(lab, tokens, hidden);
      check_gelu(lab, tokens, hidden * 4);
    }
  for (uint32_t dim : {64u, 128u, 256u})
    check_both_ways(lab, full ? std::vector<uint32_t>{1, 63, 64, 65, 300} : std::vector<uint32_t>{1, 65, 20},
                    full ? 12 : 2, dim);
}

}  // namespace weir::gpu
