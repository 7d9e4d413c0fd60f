#include "engines/llm/cuda/plan.h"

#include <algorithm>
#include <numeric>

#include "engines/llm/cuda/matmul.h"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kTextTakes = 16;  // tokens, at least

}  // namespace

std::vector<uint32_t> graph_buckets(uint32_t most) {
  std::vector<uint32_t> out;
  for (uint64_t size = 1; size < most; size *= 2) {
    out.push_back(uint32_t(size));
    if (size >= 8 && size + size / 2 < most) out.push_back(uint32_t(size + size / 2));
  }
  if (most > 0) out.push_back(most);
  return out;
}

uint32_t bucket_for(std::span<const uint32_t> buckets, uint32_t rows) {
  auto found = std::lower_bound(buckets.begin(), buckets.end(), rows);
  return found == buckets.end() ? 0 : *found;
}

std::vector<uint32_t> prompt_sizes(uint32_t most) {
  std::vector<uint32_t> out;
  for (uint32_t rows = kThinRows; rows < most;) {
    rows = std::min(row_bucket(rows + 1), most);
    out.push_back(rows);
  }
  return out;
}

uint32_t parts_of(uint32_t length) { return uint32_t((uint64_t(length) + kPartition - 1) / kPartition); }

uint32_t captured_parts(uint32_t longest, uint32_t max_length) {
  uint64_t parts = 1;
  while (parts < parts_of(longest)) parts *= 4;
  return uint32_t(std::clamp<uint64_t>(parts, 1, std::max(parts_of(max_length), 1u)));
}

std::vector<uint32_t> part_counts(uint32_t longest, uint32_t max_length) {
  std::vector<uint32_t> out;
  for (uint64_t parts = 1;; parts *= 4) {
    auto length = uint32_t(std::min<uint64_t>(parts * kPartition, longest));
    out.push_back(captured_parts(length, max_length));
    if (length == longest) return out;
  }
}

PackBucket pack_bucket(uint32_t tokens, uint32_t tiles, uint32_t most) {
  PackBucket bucket;
  bucket.tokens = bucket_for(graph_buckets(std::min(most, kGraphTokens)), tokens);
  for (bucket.tiles = 1; bucket.tiles < tiles;) bucket.tiles *= 4;
  return bucket;
}

std::vector<PackBucket> pack_buckets(uint32_t most) {
  std::vector<PackBucket> out;
  for (uint32_t tokens : graph_buckets(std::min(most, kGraphTokens)))
    for (uint32_t tiles = 1;; tiles *= 4) {
      out.push_back({tokens, tiles});
      if (tiles >= std::min(tokens, most / kTextTakes)) break;
    }
  return out;
}

PartMemory part_memory(uint32_t rows, uint32_t heads, uint32_t dim, uint32_t parts) {
  size_t cells = size_t(rows) * heads * parts;
  PartMemory m;
  m.max = aligned(cells * dim * sizeof(float));
  m.sum = m.max + aligned(cells * sizeof(float));
  m.bytes = m.sum + aligned(cells * sizeof(float));
  return m;
}

bool has_attention(uint32_t heads, uint32_t kv_heads, uint32_t dim) {
  return kv_heads > 0 && heads % kv_heads == 0 && (dim == 64 || dim == 96 || dim == 128 || dim == 256);
}

namespace {

void add_tokens(const generation::TokenStep& step, const generation::TokenStep::Row& row, StepPlan& plan) {
  for (uint32_t i = row.first; i < row.first + row.count; ++i) {
    plan.place[i] = uint32_t(plan.ids.size());
    plan.ids.push_back(step.ids[i]);
    plan.positions.push_back(step.positions[i]);
    plan.slots.push_back(step.slots[i]);
  }
}

void clear(StepPlan& plan) {
  plan.singles = plan.longest = 0;
  for (auto* v : {&plan.place, &plan.ids, &plan.positions, &plan.slots, &plan.lengths, &plan.starts}) v->clear();
  plan.chunks.clear(), plan.tiles.clear();
}

}  // namespace

void plan_step(const generation::TokenStep& step, StepPlan& plan) {
  clear(plan);
  plan.place.resize(step.ids.size());
  for (const auto& row : step.rows) {
    if (row.count != 1) continue;
    add_tokens(step, row, plan);
    plan.lengths.push_back(step.positions[row.first] + 1), plan.starts.push_back(row.table);
    plan.longest = std::max(plan.longest, plan.lengths.back());
  }
  plan.singles = uint32_t(plan.lengths.size());
  for (const auto& row : step.rows) {
    if (row.count < 2) continue;
    plan.chunks.push_back({uint32_t(plan.ids.size()), row.count, step.positions[row.first], row.table});
    add_tokens(step, row, plan);
  }
  for (uint32_t c = 0; c < plan.chunks.size(); ++c)
    for (uint32_t query = 0; query < plan.chunks[c].count; query += kQueryTile) plan.tiles.push_back({c, query});
  auto end_of = [&](const Tile& tile) { return plan.chunks[tile.chunk].begin + tile.query; };
  std::stable_sort(plan.tiles.begin(), plan.tiles.end(),
                   [&](const Tile& a, const Tile& b) { return end_of(a) > end_of(b); });
}

void plan_trim(const generation::TokenStep& step, const StepPlan& plan, Trim& trim) {
  const auto places = uint32_t(plan.ids.size());
  trim.kept.clear(), trim.tiles.clear();
  auto& row = trim.row;  // whether it goes on, at first
  row.assign(places, 0);
  std::fill_n(row.begin(), plan.singles, 1u);
  for (const auto& request : step.logits_requests) row[plan.place[request.token]] = 1;
  for (const auto& readout : step.readouts) row[plan.place[readout.token]] = 1;
  for (const auto& pool : step.pools)
    if (const auto& summed = step.rows[pool.row]; summed.count > 0)
      std::fill_n(row.begin() + plan.place[summed.first], summed.count, 1u);
  trim.any = std::find(row.begin(), row.end(), 0u) != row.end();
  if (!trim.any) return std::iota(row.begin(), row.end(), 0u);
  for (const auto& tile : plan.tiles) {
    const Chunk& chunk = plan.chunks[tile.chunk];
    const auto from = row.begin() + chunk.first + tile.query,
               to = from + std::min(kQueryTile, chunk.count - tile.query);
    if (std::find(from, to, 1u) != to) trim.tiles.push_back(tile);
  }
  for (uint32_t place = 0; place < places; ++place)
    if (row[place]) row[place] = uint32_t(trim.kept.size()), trim.kept.push_back(place);
}

void pad(StepPlan& plan, uint32_t rows) {
  plan.slots.resize(rows, kNoSlot);
  for (auto* v : {&plan.ids, &plan.positions, &plan.lengths, &plan.starts}) v->resize(rows, 0);
}

}  // namespace weir::llm::cuda
