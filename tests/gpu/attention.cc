// Attention over paged keys and values.
#include "both.h"
#include "engines/llm/cuda/plan.h"

namespace weir::gpu {
namespace {

using namespace llm::cuda;

constexpr uint32_t kBlock = 16;

// Keys and values of sequences, in blocks that lie anywhere.
struct Paged {
  Paged(Lab& lab, uint32_t sequences, uint32_t blocks_each, uint32_t kv_heads, uint32_t dim)
      : width(blocks_each),
        tables(lab, shuffled(lab, sequences * blocks_each)),
        k(lab, some_bf16(lab, tables.host.size() * kBlock * kv_heads * dim)),
        v(lab, some_bf16(lab, k.host.size())) {}

  static std::vector<uint32_t> shuffled(Lab& lab, uint32_t count) {
    std::vector<uint32_t> out(count);
    for (uint32_t i = 0; i < count; ++i) out[i] = i;
    std::shuffle(out.begin(), out.end(), lab.random);
    return out;
  }

  uint32_t width;
  Both<uint32_t> tables;
  Both<Bf16> k, v;
};

std::string words_of(uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t window) {
  return " " + std::to_string(heads) + "/" + std::to_string(kv_heads) + "x" + std::to_string(dim) +
         (window ? " window" : "");
}

void check_decode(Lab& lab, uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t window) {
  bool full = lab.scale == Lab::Scale::kFull;
  uint32_t longest = full ? 1200 : 300;
  Both lengths(lab, std::vector<uint32_t>{1, 17, 256, 0, 257, longest});
  auto rows = uint32_t(lengths.host.size());
  Paged cache(lab, rows, longest / kBlock + 1, kv_heads, dim);
  Both q(lab, some_bf16(lab, size_t(rows) * heads * dim));
  Both<Bf16> out(lab, q.host.size());
  uint32_t parts = captured_parts(longest, 8192);
  auto memory = part_memory(rows, heads, dim, parts);
  auto room = lab.room(memory.bytes);
  auto at = [&](size_t offset) { return reinterpret_cast<float*>(room.data() + offset); };
  std::vector<uint32_t> begins(rows);
  for (uint32_t i = 0; i < rows; ++i) begins[i] = (rows - 1 - i) * cache.width;
  Both starts(lab, begins);
  for (bool with_starts : {false, true}) {
    run(lab, &Kernels::decode_attention, [&](Side s) {
      return DecodeAttention{q.at(s),
                             cache.k.at(s),
                             cache.v.at(s),
                             cache.tables.at(s),
                             lengths.at(s),
                             at(memory.out),
                             at(memory.max),
                             at(memory.sum),
                             out.at(s),
                             rows,
                             heads,
                             kv_heads,
                             dim,
                             cache.width,
                             kBlock,
                             parts,
                             window,
                             1 / std::sqrt(float(dim)),
                             with_starts ? starts.at(s) : nullptr};
    });
    lab.check("decode attention" + words_of(heads, kv_heads, dim, window), out.error(lab), kOneStep);
    if (!full) break;
  }
}

}  // namespace

void check_attention(Lab& lab) {
  struct Heads {
    uint32_t heads, kv_heads, dim;
  };
  std::vector<Heads> all{{4, 1, 64}, {2, 1, 128}, {2, 2, 256}, {8, 1, 128}};
  if (lab.scale == Lab::Scale::kFull) all = {{32, 8, 64}, {32, 8, 128}, {64, 8, 128}, {16, 8, 128}, {8, 8, 256}};
  for (auto [heads, kv_heads, dim] : all)
    for (uint32_t window : {0u, 200u}) check_decode(lab, heads, kv_heads, dim, window);
}

}  // namespace weir::gpu
