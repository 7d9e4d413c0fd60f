#include "engines/llm/cpu/rotary.h"

#include <cmath>

namespace weir::llm {

namespace {

constexpr uint32_t kFewTokens = 8;  // that one thread does faster than two

}  // namespace

RotaryTables::RotaryTables(const Shape& shape, size_t tokens)
    : shape_(shape), tokens_(tokens), turns_(tokens * shape.head_dim * (shape.local_rope ? 2 : 1) * sizeof(float)) {}

void RotaryTables::fill(std::span<const uint32_t> positions, ThreadTeam& team) {
  fill(positions, shape_.rope, turns_.as<float>(), team);
  if (shape_.local_rope) fill(positions, *shape_.local_rope, turns_.as<float>() + tokens_ * shape_.head_dim, team);
}

void RotaryTables::fill(std::span<const uint32_t> positions, const Rope& rope, float* turns, ThreadTeam& team) {
  const auto half = uint32_t(rope.frequencies.size());
  team.run(uint32_t(positions.size()), kFewTokens, [&](uint32_t from, uint32_t to, uint32_t) {
    for (uint32_t t = from; t < to; ++t) {
      float* cosines = turns + size_t(t) * shape_.head_dim;
      for (uint32_t i = 0; i < half; ++i) {
        float angle = float(positions[t]) * rope.frequencies[i];
        cosines[i] = std::cos(angle) * rope.scale;
        cosines[half + i] = std::sin(angle) * rope.scale;
      }
    }
  });
}

}  // namespace weir::llm
