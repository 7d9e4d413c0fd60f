// Matrices of a checkpoint as the codes that a device keeps (device_matrix.h): stored ones as they are, and numbers in
// the same codes as the CPU engine makes of them (load/encode.h).
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "engines/llm/cuda/device_matrix.h"
#include "engines/llm/load/weight.h"

namespace weir::llm::cuda {

// Inputs [first, first + inputs) of rows that have `all`, and what is kept of them.
struct CodePlan {
  DeviceMatrix how;  // without memory
  uint32_t all = 0, first = 0, inputs = 0;
  uint32_t group = 0;  // of a whole row: inputs that share a scale
};

// How these inputs of weights, one below the other, are kept. kBf16: `keep` wants that, or they are not coded alike, or
// a product cannot take them: inputs that are no whole kCodedTogether, groups that are none, or that are cut.
CodePlan plan_codes(std::span<const Weight* const> weights, Keep keep, uint32_t first, uint32_t inputs);
// The same of numbers that are made here.
CodePlan plan_codes(Keep keep, uint32_t inputs);

// Makes rows of a matrix, one at a time.
class RowCoder {
 public:
  explicit RowCoder(const CodePlan& plan);
  // `to` has plan.how.pitch bytes.
  void write(const Weight& weight, uint32_t output, std::byte* to);
  void write(const float* row, std::byte* to);

 private:
  void put(std::byte* to);

  const CodePlan plan_;
  std::vector<uint8_t> codes_, zeros_;
  std::vector<float> numbers_, scales_, offsets_;
};

// Bytes [from, from + to.size()) of rows of `pitch` bytes, by several threads; write(row, to) makes a whole row, and
// `make` what a thread calls for that, with rising numbers. Throws what any of them throws.
using WriteRow = std::function<void(size_t row, std::byte* to)>;
void write_rows(size_t pitch, size_t from, std::span<std::byte> to, uint32_t threads,
                const std::function<WriteRow()>& make);

}  // namespace weir::llm::cuda
