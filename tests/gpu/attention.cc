// Attention over paged keys and values.
#include "cached.h"
#include "engines/llm/cuda/plan.h"

namespace weir::gpu {
namespace {

using namespace llm::cuda;

// Keys and values of sequences, in blocks that lie anywhere.
struct Paged {
  Paged(Lab& lab, const std::vector<uint32_t>& lengths, uint32_t blocks_each, uint32_t block, uint32_t kv_heads,
        uint32_t dim, KvCodes codes)
      : width(blocks_each),
        tables(lab, shuffled(lab, uint32_t(lengths.size()) * blocks_each)),
        cached(lab, codes, tables.host.size() * block, slots(lengths, block), kv_heads, dim) {}

  // Those of the positions that a sequence has.
  std::vector<size_t> slots(const std::vector<uint32_t>& lengths, uint32_t block) const {
    std::vector<size_t> out;
    for (size_t s = 0; s < lengths.size(); ++s)
      for (uint32_t p = 0; p < lengths[s]; ++p)
        out.push_back(size_t(tables.host[s * width + p / block]) * block + p % block);
    return out;
  }

  static std::vector<uint32_t> shuffled(Lab& lab, uint32_t count) {
    std::vector<uint32_t> out(count);
    for (uint32_t i = 0; i < count; ++i) out[i] = i;
    std::shuffle(out.begin(), out.end(), lab.random);
    return out;
  }

  uint32_t width;
  Both<uint32_t> tables;
  Cached cached;
};

// Scores that are capped, and a score of no position for each head: what a check has of both.
enum class Scores : uint8_t { kPlain, kCapped, kSinks };
constexpr float kCap = 1.5f;

std::string words_of(Scores scores) {
  return scores == Scores::kPlain ? "" : scores == Scores::kCapped ? " capped" : " sinks";
}
std::string words_of(PrefillAttention::With with) { return with == PrefillAttention::kWgmma ? " wgmma" : ""; }
std::string words_of(uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t window) {
  return " " + std::to_string(heads) + "/" + std::to_string(kv_heads) + "x" + std::to_string(dim) +
         (window ? " window" : "");
}

// Rows of up to `longest` positions: of one part, up to kPartition.
void check_decode(Lab& lab, uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t window, uint32_t block,
                  uint32_t longest, Scores scores = Scores::kPlain, KvCodes codes = KvCodes::kNone) {
  std::vector<uint32_t> has{1, 17, 256, 0, 257, longest};
  for (auto& length : has) length = std::min(length, longest);
  Both lengths(lab, has);
  auto rows = uint32_t(has.size());
  Paged cache(lab, has, longest / block + 1, block, kv_heads, dim, codes);
  Both q(lab, some_bf16(lab, size_t(rows) * heads * dim));
  Both<Bf16> out(lab, q.host.size());
  uint32_t parts = captured_parts(longest, 8192);
  auto memory = part_memory(rows, heads, dim, parts);
  auto room = lab.room(memory.bytes);
  Both arrived(lab, std::vector<uint32_t>(rows * kv_heads * head_blocks(heads, kv_heads)));
  auto at = [&](size_t offset) { return reinterpret_cast<float*>(room.data() + offset); };
  std::vector<uint32_t> begins(rows);
  for (uint32_t i = 0; i < rows; ++i) begins[i] = i * cache.width;
  Both starts(lab, begins);
  Both sinks(lab, some_floats(lab, heads, 2));
  run(lab, &Kernels::decode_attention, [&](Side s) {
    DecodeAttention a{};
    a.q = q.at(s), a.out = out.at(s);
    cache.cached.put_into(a, s);
    a.tables = cache.tables.at(s), a.lengths = lengths.at(s), a.starts = window ? starts.at(s) : nullptr;
    a.part_out = at(memory.out), a.part_max = at(memory.max), a.part_sum = at(memory.sum);
    a.rows = rows, a.heads = heads, a.kv_heads = kv_heads, a.dim = dim;
    a.table_width = cache.width, a.block_size = block, a.parts = parts, a.window = window;
    a.scale = 1 / std::sqrt(float(dim)), a.arrived = arrived.at(s);
    if (scores == Scores::kCapped) a.cap = kCap;
    if (scores == Scores::kSinks) a.sinks = sinks.at(s);
    return a;
  });
  lab.check("decode attention, counters" + words_of(heads, kv_heads, dim, window), arrived.error(lab), 0);
  lab.check("decode attention" + words_of(heads, kv_heads, dim, window) + words_of(scores) + kept_words(codes) +
                (parts == 1 ? " one part" : ""),
            out.error(lab), 2 * kOneStep);  // the weights are rounded to bfloat16, too
}

// Rows whose newest position is not in the cache yet: their queries, keys and values come as products. The same as
// rope_store and then attention, but for roundings on the way. kPart: heads turn in part, and weights of
// norms are stored less 1.
enum With : uint32_t { kBias = 1, kNorms = 2, kPart = 4 };
void check_turned(Lab& lab, uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t with, uint32_t block,
                  KvCodes codes = KvCodes::kNone) {
  std::vector<uint32_t> has{1, 17, 256, 0, 257, 300};
  Both lengths(lab, has);
  const auto rows = uint32_t(has.size());
  Paged cache(lab, has, 300 / block + 1, block, kv_heads, dim, codes);
  std::vector<uint32_t> at(rows), places(rows, kNoSlot);
  for (uint32_t row = 0; row < rows; ++row) {
    if (has[row] == 0) continue;
    at[row] = has[row] - 1;
    places[row] = cache.tables.host[row * cache.width + at[row] / block] * block + at[row] % block;
  }
  std::vector<float> turns(dim / 2);
  for (size_t i = 0; i < turns.size(); ++i) turns[i] = float(std::pow(10000.0, -2.0 * double(i) / dim));
  Both positions(lab, at), slots(lab, places);
  Both frequencies(lab, turns);
  const size_t width = size_t(heads + 2 * kv_heads) * dim;
  Both qkv(lab, some_bf16(lab, rows * width)), q_norm(lab, some_bf16(lab, dim)), k_norm(lab, some_bf16(lab, dim));
  Both bias(lab, some_floats(lab, width));
  Both<Bf16> out(lab, size_t(rows) * heads * dim);
  Both arrived(lab, std::vector<uint32_t>(rows * kv_heads * head_blocks(heads, kv_heads)));
  const uint32_t parts = captured_parts(300, 8192);
  auto memory = part_memory(rows, heads, dim, parts);
  auto room = lab.room(memory.bytes);
  auto in_room = [&](size_t offset) { return reinterpret_cast<float*>(room.data() + offset); };
  run(lab, &Kernels::decode_attention, [&](Side s) {
    DecodeAttention a{};
    a.out = out.at(s), a.arrived = arrived.at(s);
    cache.cached.put_into(a, s);
    a.tables = cache.tables.at(s), a.lengths = lengths.at(s);
    a.part_out = in_room(memory.out), a.part_max = in_room(memory.max), a.part_sum = in_room(memory.sum);
    a.rows = rows, a.heads = heads, a.kv_heads = kv_heads, a.dim = dim;
    a.table_width = cache.width, a.block_size = block, a.parts = parts, a.window = with & kBias ? 40 : 0;
    a.scale = 1 / std::sqrt(float(dim));
    RopeStore& turn = a.turn;
    turn.qkv = qkv.at(s), turn.frequencies = frequencies.at(s), turn.positions = positions.at(s);
    turn.slots = slots.at(s), turn.tokens = rows, turn.scale = 1.25f;
    turn.heads = heads, turn.kv_heads = kv_heads, turn.dim = dim;
    if (with & kBias) turn.bias = bias.at(s);
    if (with & kNorms) turn.q_norm = q_norm.at(s), turn.k_norm = k_norm.at(s), turn.epsilon = 1e-6f;
    if (with & kPart) turn.offset = 1;
    if (with & kPart) turn.pairs = dim / 4 + 8;
    return a;
  });
  const std::string words = words_of(heads, kv_heads, dim, with & kBias) + kept_words(codes);
  // A query or a key that is rounded the other way moves a score.
  lab.check("decode attention, turned" + words, out.error(lab), 4 * kOneStep);
  lab.check("decode attention, turned, keys" + words, cache.cached.error(lab, 0), one_step(codes));
  lab.check("decode attention, turned, values" + words, cache.cached.error(lab, 1), with & kBias ? one_step(codes) : 0);
  lab.check("decode attention, counters" + words, arrived.error(lab), 0);
}

// A chunk at the front of a sequence, one in its middle, one of a single token, one at a window's edge.
void check_prefill(Lab& lab, uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t window, uint32_t block,
                   Scores scores = Scores::kPlain, PrefillAttention::With with = PrefillAttention::kMma,
                   KvCodes codes = KvCodes::kNone) {
  struct Part {
    uint32_t begin, count;
  };
  std::vector<Part> has{{0, 70}, {37, 64}, {129, 1}, {150, 33}};
  if (lab.scale == Lab::Scale::kFull) has.insert(has.end(), {{0, 500}, {1000, 130}, {2048, 64}});
  if (with == PrefillAttention::kWgmma) has.push_back({600, 40});  // more pieces of keys than a block holds
  std::vector<uint32_t> lengths;
  std::vector<Chunk> parts;
  std::vector<Tile> pieces;
  uint32_t tokens = 3;  // rows of others before them
  for (auto [begin, count] : has) lengths.push_back(begin + count);
  uint32_t width = *std::max_element(lengths.begin(), lengths.end()) / block + 1;
  for (auto [begin, count] : has) {
    for (uint32_t query = 0; query < count; query += kQueryTile) pieces.push_back({uint32_t(parts.size()), query});
    parts.push_back({tokens, count, begin, uint32_t(parts.size()) * width});
    tokens += count;
  }
  Paged cache(lab, lengths, width, block, kv_heads, dim, codes);
  Both q(lab, some_bf16(lab, size_t(tokens) * heads * dim)), out(lab, std::vector<Bf16>(q.host.size()));
  Both chunks(lab, parts);
  Both tiles(lab, pieces);
  Both sinks(lab, some_floats(lab, heads, 2));
  Both stuck(lab, std::vector<uint32_t>{0});
  run(lab, &Kernels::prefill_attention, [&](Side s) {
    PrefillAttention a{};
    a.q = q.at(s), a.out = out.at(s);
    cache.cached.put_into(a, s);
    a.tables = cache.tables.at(s), a.chunks = chunks.at(s), a.tiles = tiles.at(s), a.count = uint32_t(pieces.size());
    a.heads = heads, a.kv_heads = kv_heads, a.dim = dim, a.block_size = block, a.window = window;
    a.scale = 1 / std::sqrt(float(dim));
    if (scores == Scores::kCapped) a.cap = kCap;
    if (scores == Scores::kSinks) a.sinks = sinks.at(s);
    a.with = with, a.stuck = stuck.at(s);
    return a;
  });
  // The weights are rounded to bfloat16, too.
  lab.check("prefill attention" + words_of(with) + words_of(heads, kv_heads, dim, window) + words_of(scores) +
                kept_words(codes),
            out.error(lab), 2 * kOneStep);
  if (with == PrefillAttention::kWgmma) lab.check("prefill attention wgmma, barriers", stuck.error(lab), 0);
}

// Keys and values as codes: all that reads them, and what writes them beside attention.
void check_codes(Lab& lab, uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t block, KvCodes codes) {
  for (uint32_t window : {0u, 40u}) {
    check_decode(lab, heads, kv_heads, dim, window, block, 300, Scores::kPlain, codes);
    check_prefill(lab, heads, kv_heads, dim, window, block, Scores::kPlain, PrefillAttention::kMma, codes);
  }
  check_decode(lab, heads, kv_heads, dim, 0, block, kPartition, Scores::kSinks, codes);
  check_prefill(lab, heads, kv_heads, dim, 0, block, Scores::kCapped, PrefillAttention::kMma, codes);
  for (uint32_t with : {0u, 3u, 7u}) check_turned(lab, heads, kv_heads, dim, with, block, codes);
}

// The same by its own kernel, where it does that shape.
void check_hopper(Lab& lab, uint32_t group, uint32_t kv_heads, uint32_t dim, uint32_t block) {
  if (lab.scale != Lab::Scale::kFull) group = std::min(group, 7u);  // the emulator takes its time
  PrefillAttention a{};
  a.heads = group * kv_heads, a.kv_heads = kv_heads, a.dim = dim;
  if (!lab.is_hopper() || !takes_wgmma(a)) return;
  auto check = [&](uint32_t window, Scores scores) {
    check_prefill(lab, a.heads, kv_heads, dim, window, block, scores, PrefillAttention::kWgmma);
  };
  check(0, Scores::kPlain), check(200, Scores::kPlain), check(40, Scores::kSinks);
}

}  // namespace

void check_attention(Lab& lab) {
  struct Heads {
    uint32_t heads, kv_heads, dim, block;
  };
  std::vector<Heads> all{{4, 1, 64, 16}, {3, 1, 128, 16}, {2, 2, 256, 32}, {5, 1, 256, 16},
                         {7, 1, 64, 12}, {4, 2, 96, 16},  {24, 2, 64, 16}};
  if (lab.scale == Lab::Scale::kFull)
    all = {{32, 8, 64, 16}, {32, 8, 128, 16}, {64, 8, 128, 16}, {16, 8, 128, 32}, {8, 8, 256, 16},  {16, 2, 256, 16},
           {14, 2, 64, 16}, {24, 8, 128, 12}, {32, 32, 96, 16}, {12, 4, 96, 12},  {64, 4, 128, 16}, {24, 2, 64, 16}};
  for (auto [heads, kv_heads, dim, block] : all)
    for (uint32_t window : {0u, 40u, 200u}) {
      for (uint32_t longest : {kPartition, lab.scale == Lab::Scale::kFull ? 1200u : 300u})
        check_decode(lab, heads, kv_heads, dim, window, block, longest);
      uint32_t some = std::min(kv_heads, 2u);  // the host takes its time
      check_prefill(lab, heads / kv_heads * some, some, dim, window, block);
    }
  for (auto [heads, kv_heads, dim, block] : all)
    for (auto scores : {Scores::kCapped, Scores::kSinks})
      for (uint32_t window : {0u, 40u}) {
        for (uint32_t longest : {kPartition, 300u})
          check_decode(lab, heads, kv_heads, dim, window, block, longest, scores);
        const uint32_t some = std::min(kv_heads, 2u);
        check_prefill(lab, heads / kv_heads * some, some, dim, window, block, scores);
      }
  for (auto [heads, kv_heads, dim, block] : all)
    check_hopper(lab, heads / kv_heads, std::min(kv_heads, 2u), dim, block);
  for (auto [heads, kv_heads, dim, block] : all)
    for (uint32_t with : {0u, 1u, 2u, 3u, 4u, 7u}) check_turned(lab, heads, kv_heads, dim, with, block);
}

void check_kv_codes(Lab& lab) {
  struct Heads {
    uint32_t heads, kv_heads, dim, block;
  };
  std::vector<Heads> all{{4, 2, 64, 16}, {10, 1, 96, 16}, {3, 1, 128, 12}, {2, 2, 256, 32}};
  if (lab.scale == Lab::Scale::kFull)
    all = {{32, 8, 64, 16}, {64, 4, 128, 16}, {24, 8, 128, 12}, {32, 32, 96, 16}, {16, 2, 256, 16}, {24, 2, 64, 16}};
  for (auto [heads, kv_heads, dim, block] : all)
    for (auto codes : {KvCodes::kInt8, KvCodes::kFp8}) check_codes(lab, heads, kv_heads, dim, block, codes);
}

}  // namespace weir::gpu
