// Matrix: weights in the order in which the kernels read them, and products with it on all threads.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "engines/llm/cpu/kernels.h"
#include "engines/llm/cpu/memory.h"
#include "engines/llm/cpu/thread_team.h"
#include "engines/llm/load/weight.h"

namespace weir::llm {

// [outputs][inputs], packed: panel after panel of 16 outputs (the last filled up with zeros), each `depth` steps of 64
// bytes. With 2-byte numbers a step holds inputs 2k and 2k + 1 of each output side by side.
//
// Where the numbers are coded, `form` is kBf16, what the codes become when they are read; a panel is then group after
// group of steps (group_bytes(), kernels.h), the last filled up with codes that nothing reads. With offsets an output
// is the sum of what the codes give, and of each group's offset times the sum of its inputs.
struct Matrix {
  WeightFormat form = WeightFormat::kF32;
  Coding coding = Coding::kWhole;
  uint32_t outputs = 0, inputs = 0, panels = 0, depth = 0;
  uint32_t group_steps = 0;  // of a coded one
  bool offsets = false;      // it has them
  Memory data;
  std::vector<float> bias;  // per output, panels * 16 of them; empty = none

  uint32_t groups() const { return (depth + group_steps - 1) / group_steps; }
  size_t group_stride() const { return group_bytes(coding, group_steps) + (offsets ? kOffsetBytes : 0); }
  size_t panel_bytes() const { return coding == Coding::kWhole ? size_t(depth) * 64 : groups() * group_stride(); }
  size_t bytes() const { return size_t(panels) * panel_bytes(); }
  // One that is whole.
  void read_row(uint32_t output, float* out) const;
};

// Where the outputs of one array go: array row r becomes output first + r, or, in pairs of panels, every other panel
// beginning with panel `first` (the gates and the ups of an MLP lie side by side). Where one array has both, the first
// half of its rows are the gates, or every other row is one.
enum class Lay : uint8_t { kInOrder, kEveryOtherPanel, kHalves, kInTurn };
struct Source {
  const Weight* weight = nullptr;
  uint32_t first = 0;
  Lay lay = Lay::kInOrder;
};

// The output that row `row` of `rows` becomes.
uint32_t output_of(uint32_t first, Lay lay, uint32_t rows, uint32_t row);

// The matrix that pack() fills, without its memory. One of kF32 is whole.
Matrix plan_matrix(WeightFormat form, Keep keep, uint32_t outputs, uint32_t inputs, std::span<const Source> sources);
// The sources are [rows][inputs] and do not overlap. Errors: RESOURCE_EXHAUSTED.
base::Result<Matrix> pack(Matrix planned, std::span<const Source> sources, ThreadTeam& team);

// Rows of activations in a matrix's form; strides are chosen so that a dozen rows do not share cache sets.
struct Activations {
  const std::byte* data = nullptr;
  size_t stride = 0;  // bytes
};
constexpr size_t activation_stride(WeightFormat form, uint32_t n) {
  return (size_t(n) + 31) / 32 * 32 * size_of(form) + 64;
}

// curve(gate) * up of panels of gates and ups in turn.
using Gate = void (*)(const float* x, uint32_t pairs, std::byte* out);
Gate gate_of(const Kernels& kernels, Activation by, WeightFormat form);

class Multiplier {
 public:
  enum class Into : uint8_t {
    kStore,  // out = x W^T + bias
    kAdd,    // out += x W^T + bias
  };
  Multiplier(const Kernels& kernels, ThreadTeam& team, uint32_t max_rows);

  // One of several matrices with as many outputs and inputs that lie one after the other in one Matrix, the panels of
  // each its own, and the rows that it is multiplied with.
  struct Part {
    Activations x;
    uint32_t rows = 0, index = 0;  // of the matrix among them
    std::byte* out = nullptr;
  };

  // `out` has `stride` floats per row.
  void run(Activations x, uint32_t rows, const Matrix& w, Into into, float* out, size_t stride);
  // silu(gate) * up, or with the other curve, of a matrix whose panels are gates and ups in turn; `out` in the matrix's
  // form.
  void run_gated(Activations x, uint32_t rows, const Matrix& w, std::byte* out, size_t stride,
                 Activation by = Activation::kSilu);
  // The same of parts, whose matrices have `panels` panels and of these `outputs` outputs.
  void run(std::span<const Part> parts, const Matrix& w, uint32_t panels, uint32_t outputs, Into into, size_t stride);
  void run_gated(std::span<const Part> parts, const Matrix& w, uint32_t panels, size_t stride,
                 Activation by = Activation::kSilu);
  // curve(x W^T + bias), `curve` being a kernel for the matrix's form, which `out` is in.
  using Curve = void (*)(const float* x, uint32_t n, std::byte* out);
  void run_curved(Activations x, uint32_t rows, const Matrix& w, Curve curve, std::byte* out, size_t stride);

 private:
  template <class F>
  void over_groups(std::span<const Part> parts, const Matrix& w, uint32_t panels, F&& finish);
  // Into `tile`, [rows][64], the outputs of `panels` panels from `first` on.
  void whole(Activations x, uint32_t rows, const Matrix& w, uint32_t first, uint32_t panels, float* tile);
  void coded(const Part& part, const float* input_sums, const Matrix& w, uint32_t first, uint32_t panels, float* tile,
             std::byte* expanded);
  void sum_inputs(std::span<const Part> parts, const Matrix& w);

  const Kernels& kernels_;
  ThreadTeam& team_;
  uint32_t max_rows_;
  Memory scratch_;                 // per thread: [max_rows][64]
  std::vector<float> input_sums_;  // of a matrix with offsets: [rows][groups], part after part
  std::vector<size_t> sums_at_;    // where those of each part begin
  Memory
      expanded_;  // per thread: some steps of 4 panels as bfloat16, then [max_rows][64], the sums of a group of inputs
};

}  // namespace weir::llm
