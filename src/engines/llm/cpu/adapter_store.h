// AdapterStore: the adapters of a Transformer that are in memory: those that it was made with, and those that come and
// go while it runs. The lane's thread takes the Table once for each step and drops it behind it; a load or the end of
// an adapter makes another Table.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engines/llm/cpu/adapter_weights.h"
#include "engines/llm/cpu/memory.h"
#include "engines/llm/load/shape.h"
#include "msg/adapter_loader.h"

namespace weir::llm {

class AdapterStore final : public msg::AdapterLoader, public std::enable_shared_from_this<AdapterStore> {
 public:
  // The widest of all pairs.
  struct Widths {
    uint32_t inputs = 0, rank = 0, outputs = 0, gates = 0;
    void cover(const AdapterWeights& adapter);
    bool inside(const Widths& o) const {
      return inputs <= o.inputs && rank <= o.rank && outputs <= o.outputs && gates <= o.gates;
    }
  };
  // Arrays of a step, for the lane's thread alone: activations [rows][inputs] and [rows][rank]; floats [rows][rank],
  // [rows][outputs], and [rows][gates] before the curve.
  struct Scratch {
    Widths widths;
    Memory gathered, low, sums, products, gates;
    bool there() const { return gathered && low && sums && products && gates; }
  };
  struct Table {
    using Numbered = std::pair<uint32_t, std::shared_ptr<const AdapterWeights>>;
    std::vector<Numbered> adapters;    // ascending by number
    std::shared_ptr<Scratch> scratch;  // null: there are none
    // The place of a number; adapters.size(): it is not there.
    size_t place(uint32_t number) const;
  };
  // The model that they are for.
  struct Base {
    Shape shape;
    WeightFormat form = WeightFormat::kF32;
    uint64_t bytes = 0;                       // of its weights
    uint32_t rows = 0;                        // of a step
    std::function<uint64_t()> free_memory{};  // that adapters may take; null: what the weights leave of the machine's
  };

  // `adapters` have the numbers from 1 on. Aborts where there is no memory for a step.
  AdapterStore(Base base, std::vector<AdapterWeights> adapters);

  uint32_t made_with() const { return made_with_; }
  std::shared_ptr<const Table> table() const;

  base::Result<Loaded> load(const Source& source) override;
  bool has(uint32_t number) const override;
  uint64_t bytes() const override;

 private:
  base::Result<AdapterWeights> read(const Source& source) const;
  base::Status add(uint32_t number, std::shared_ptr<const AdapterWeights> weights);
  void remove(uint32_t number);
  std::shared_ptr<Scratch> scratch_for(const Table& table, const std::shared_ptr<Scratch>& before) const;

  const Base base_;
  const uint32_t made_with_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Table> table_;  // under mutex_, as the next; never null
  uint64_t loaded_bytes_ = 0;           // of those that load() has brought
};

}  // namespace weir::llm
