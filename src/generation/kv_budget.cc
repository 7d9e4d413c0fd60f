#include "generation/kv_budget.h"

#include <algorithm>

namespace weir::generation {
namespace {

constexpr uint64_t kMaxPositions = uint64_t(1) << 31;  // so that slots fit their type

}  // namespace

uint64_t bytes_per_block(const TokenEngine& engine, const TokenPolicy& policy) {
  return std::max<uint64_t>(engine.kv_bytes(policy.block_size), 1);
}

// More blocks than running sequences can fill are of use to sessions and the prefix cache: many, not any number.
uint32_t kv_blocks(const TokenEngine& engine, const TokenPolicy& configured, uint32_t max_length) {
  TokenPolicy policy = configured.clamped();
  uint64_t useful = 16 * uint64_t(policy.max_running) * (max_length / policy.block_size + 1);
  uint64_t held = policy.kv_bytes / bytes_per_block(engine, policy);
  return uint32_t(std::min<uint64_t>({held, useful, kMaxPositions / policy.block_size}));
}

uint32_t kv_positions(const TokenEngine& engine, const TokenPolicy& configured, uint32_t max_length) {
  TokenPolicy policy = configured.clamped();
  uint64_t blocks = kv_blocks(engine, policy, max_length);
  return uint32_t(std::min<uint64_t>(max_length, (blocks - std::min<uint64_t>(blocks, 1)) * policy.block_size));
}

}  // namespace weir::generation
