// Adapters: the LoRA adapters of a Transformer, and the products with them for the rows of a step that have one.
//
// A row's sum does not depend on its company, as everywhere (README): it is the matrix's product, as without adapters,
// and then the adapter's, whichever rows are multiplied together. Rows without an adapter are not touched.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engines/llm/cpu/adapter_store.h"
#include "engines/llm/cpu/kernels.h"
#include "engines/llm/cpu/matrix.h"
#include "engines/llm/cpu/memory.h"
#include "generation/engine.h"

namespace weir::llm {

class Adapters {
 public:
  // Which matrix of a layer.
  using Which = LowRankPair AdapterLayer::*;

  // `max_rows`: of a step. All but the store is borrowed.
  Adapters(std::shared_ptr<AdapterStore> store, WeightFormat form, const Kernels& kernels, Multiplier& multiply,
           ThreadTeam& team, uint32_t max_rows);

  const std::shared_ptr<AdapterStore>& store() const { return store_; }
  // Which rows of the step's arrays have which adapter: each token has its own row; or, once some have been left out,
  // token t that is kept[t] has row at[t]. Errors: INTERNAL, an adapter is not in memory.
  base::Status begin(const generation::TokenStep& step);
  void keep(const generation::TokenStep& step, std::span<const uint8_t> kept, std::span<const uint32_t> at);
  // Whether the adapter of any row changes the matrix.
  bool change(uint32_t layer, Which which) const;
  // Adds to the rows of `out`, `stride` floats each, what their adapters make of those of `x`.
  void add(uint32_t layer, Which which, Activations x, float* out, size_t stride);
  // As Multiplier::run_gated(), where an adapter changes gates or ups; of rows without one to the last bit.
  void run_gated(uint32_t layer, Activations x, uint32_t rows, const Matrix& gate_up, std::byte* out, size_t stride,
                 Activation by);
  // The step is over: what has been unloaded meanwhile leaves memory.
  void end();

 private:
  // Rows [first, first + count) of order_.
  struct Group {
    const AdapterWeights* adapter;
    uint32_t first, count;
    bool neighbours;  // the rows follow each other in the arrays, too
  };
  void group(const generation::TokenStep& step, std::span<const uint8_t> kept, std::span<const uint32_t> at);
  const LowRankPair& pair(const Group& group, uint32_t layer, Which which) const {
    return group.adapter->layers[layer].*which;
  }
  Activations gather(const Group& group, Activations x, uint32_t inputs);
  Activations shrink(const Group& group, Activations x, const Matrix& a);

  const std::shared_ptr<AdapterStore> store_;
  std::shared_ptr<const AdapterStore::Table> table_;  // of this step
  const WeightFormat form_;
  const Kernels& kernels_;
  Multiplier& multiply_;
  ThreadTeam& team_;
  std::vector<Group> groups_;
  std::vector<uint32_t> places_;  // in the table, by row of the step
  std::vector<uint32_t> order_;   // rows, by adapter
  std::vector<uint32_t> counts_;  // by place in the table
};

}  // namespace weir::llm
