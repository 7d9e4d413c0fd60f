// RotaryTables: sines and cosines of a step's positions, by each rope that the model's layers have.
#pragma once

#include <span>

#include "engines/llm/cpu/memory.h"
#include "engines/llm/cpu/thread_team.h"
#include "engines/llm/load/shape.h"

namespace weir::llm {

class RotaryTables {
 public:
  // `tokens`: the most that one step has.
  RotaryTables(const Shape& shape, size_t tokens);
  explicit operator bool() const { return bool(turns_); }

  void fill(std::span<const uint32_t> positions, ThreadTeam& team);
  // Pairs of a head's dimensions that turn in that layer: i against half + i.
  uint32_t half(uint32_t layer) const { return uint32_t(shape_.rope_of(layer).frequencies.size()); }
  // A token's cosines, half() of them, and then its sines.
  const float* at(uint32_t layer, uint32_t token) const {
    return turns_.as<float>() + (is_local(layer) ? tokens_ : 0) * shape_.head_dim + size_t(token) * shape_.head_dim;
  }

 private:
  bool is_local(uint32_t layer) const { return shape_.local_rope && shape_.windows[layer] > 0; }
  void fill(std::span<const uint32_t> positions, const Rope& rope, float* turns, ThreadTeam& team);

  const Shape& shape_;
  const size_t tokens_;
  Memory turns_;  // floats [ropes][tokens][head_dim]
};

}  // namespace weir::llm
