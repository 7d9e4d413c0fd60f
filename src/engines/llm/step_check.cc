#include "engines/llm/step_check.h"

#include <string>

namespace weir::llm {
namespace {

base::Status wrong(const char* what) { return base::failure(base::Code::kInternal, what); }

base::Status check_row(const generation::TokenStep& step, const generation::TokenStep::Row& row,
                       const StepLimits& limits) {
  bool inside =
      row.first + size_t(row.count) <= step.ids.size() && row.table + size_t(row.blocks) <= step.tables.size();
  if (!inside || uint64_t(row.blocks) * limits.block_size < row.length) return wrong("a step's row is not whole");
  if (row.adapter > limits.adapters) return wrong("a step's adapter does not exist");
  for (uint32_t b = 0; b < row.blocks; ++b)
    if (step.tables[row.table + b] >= limits.blocks) return wrong("a step's block does not exist");
  for (uint32_t i = 0; i < row.count; ++i)
    if (step.positions[row.first + i] != step.positions[row.first] + i || step.positions[row.first + i] >= row.length)
      return wrong("a step's positions do not follow each other");
  return {};
}

}  // namespace

base::Status check_step(const generation::TokenStep& step, const StepLimits& limits) {
  const size_t n = step.ids.size();
  if (n > limits.tokens) return wrong("a step has too many tokens");
  if (step.positions.size() != n || step.slots.size() != n) return wrong("a step's arrays differ in length");
  for (uint32_t id : step.ids)
    if (id & generation::TokenStep::kSampled ? (id & ~generation::TokenStep::kSampled) >= limits.sampled
                                             : id >= limits.vocabulary)
      return base::invalid("token id " + std::to_string(id) + " is not in the vocabulary");
  const uint64_t slots = uint64_t(limits.blocks) * limits.block_size;
  for (uint32_t slot : step.slots)
    if (slot >= slots) return wrong("a step's slot does not exist");
  for (const auto& row : step.rows)
    if (auto s = check_row(step, row, limits); !s.ok()) return s;
  return {};
}

}  // namespace weir::llm
