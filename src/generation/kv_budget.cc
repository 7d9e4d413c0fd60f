#include "generation/kv_budget.h"

#include <algorithm>

namespace weir::generation {
namespace {

constexpr uint64_t kMaxPositions = uint64_t(1) << 31;  // so that slots fit their type
constexpr uint64_t kFewBlocks = 1 << 16;

// That which is known of a block beside its keys and values (KvBlocks), in bytes, rounded up.
uint64_t bookkeeping(const TokenPolicy& policy) { return 80 + sizeof(uint32_t) * uint64_t(policy.block_size); }

}  // namespace

uint64_t bytes_per_block(const TokenEngine& engine, const TokenPolicy& policy) {
  return std::max<uint64_t>(engine.kv_bytes(policy.block_size), 1);
}

// More blocks than running sequences can fill are of use to sessions and the prefix cache: many, not any number. Where
// keys and values are smaller than what is known of them, that has no more than policy.kv_bytes, or some 10 MB.
uint32_t kv_blocks(const TokenEngine& engine, const TokenPolicy& configured, uint32_t max_length) {
  TokenPolicy policy = configured.clamped();
  uint64_t useful = 16 * uint64_t(policy.max_running) * (max_length / policy.block_size + 1);
  uint64_t held = policy.kv_bytes / bytes_per_block(engine, policy);
  uint64_t known = std::max(policy.kv_bytes / bookkeeping(policy), kFewBlocks);
  return uint32_t(std::min<uint64_t>({held, useful, known, kMaxPositions / policy.block_size}));
}

uint32_t kv_positions(const TokenEngine& engine, const TokenPolicy& configured, uint32_t max_length) {
  TokenPolicy policy = configured.clamped();
  uint64_t blocks = kv_blocks(engine, policy, max_length);
  return uint32_t(std::min<uint64_t>(max_length, (blocks - std::min<uint64_t>(blocks, 1)) * policy.block_size));
}

}  // namespace weir::generation
