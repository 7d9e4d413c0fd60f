#include "engines/llm/cuda/plan.h"

#include <algorithm>

#include "engines/llm/cuda/kernels.h"

namespace weir::llm::cuda {
namespace {

constexpr size_t kAlign = 256;

size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

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

uint32_t parts_of(uint32_t length) { return uint32_t((uint64_t(length) + kPartition - 1) / kPartition); }

uint32_t captured_parts(uint32_t longest, uint32_t max_length) {
  uint64_t parts = 1;
  while (parts < parts_of(longest)) parts *= 4;
  return uint32_t(std::clamp<uint64_t>(parts, 1, std::max(parts_of(max_length), 1u)));
}

PartMemory part_memory(uint32_t rows, uint32_t heads, uint32_t dim, uint32_t parts) {
  size_t cells = size_t(rows) * heads * parts;
  PartMemory m;
  m.max = aligned(cells * dim * sizeof(float));
  m.sum = m.max + aligned(cells * sizeof(float));
  m.bytes = m.sum + aligned(cells * sizeof(float));
  return m;
}

base::Status pack_decode(const sched::TokenStep& step, std::span<const uint32_t> buckets, uint32_t table_width,
                         uint32_t block_size, DecodePack& pack) {
  pack.rows = uint32_t(step.rows.size());
  pack.bucket = bucket_for(buckets, pack.rows);
  if (pack.rows == 0 || pack.bucket == 0)
    return base::invalid("a decode step of " + std::to_string(step.rows.size()) + " rows fits no graph");
  pack.table_width = table_width, pack.longest = 0;
  pack.words.assign(size_t(pack.bucket) * (4 + size_t(table_width)), 0);
  std::fill(pack.slots().begin(), pack.slots().end(), kNoSlot);
  for (uint32_t i = 0; i < pack.rows; ++i) {
    const auto& row = step.rows[i];
    if (row.count != 1) return base::invalid("a row of a decode step has one token");
    if (row.blocks > table_width || uint64_t(row.blocks) * block_size < row.length)
      return base::invalid("a block table of " + std::to_string(row.blocks) + " blocks for " +
                           std::to_string(row.length) + " positions");
    pack.ids()[i] = step.ids[row.first];
    pack.positions()[i] = step.positions[row.first];
    pack.slots()[i] = step.slots[row.first];
    pack.lengths()[i] = row.length;
    pack.longest = std::max(pack.longest, row.length);
    std::copy_n(step.tables.begin() + row.table, row.blocks, pack.tables().begin() + size_t(i) * table_width);
  }
  return {};
}

}  // namespace weir::llm::cuda
