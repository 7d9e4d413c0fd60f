// ParameterReader: takes arrays out of a Store and keeps the first complaint, so that the list of a model's parameters
// reads as a list.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engines/llm/cpu/matrix.h"
#include "engines/llm/cpu/weights.h"

namespace weir::llm {

class ParameterReader {
 public:
  ParameterReader(const Store& store, WeightFormat form, ThreadTeam& team, const Quantization& how = {})
      : store_(store), form_(form), team_(team), how_(how) {}

  struct Part {
    std::string name;  // without ".weight"
    uint32_t rows;
    uint32_t first = 0;
    Lay lay = Lay::kInOrder;
  };
  enum class Bias : uint8_t { kNo, kYes };

  // An [outputs][inputs] matrix of the parts' rows.
  Matrix matrix(uint32_t outputs, uint32_t inputs, const std::vector<Part>& parts, Bias bias, Keep as = Keep::kWhole) {
    std::vector<Weight> weights;
    uint64_t scales = 0;
    for (const auto& part : parts) scales += Weight::scale_memory(how_, part.rows, inputs);
    if (!fits(scales)) return {};
    for (const auto& part : parts) {
      auto weight = Weight::find(store_, how_, part.name, part.rows, inputs);
      if (!keep(weight)) return {};
      weights.push_back(std::move(*weight));
    }
    std::vector<Source> sources;
    for (const auto& part : parts) sources.push_back({&weights[sources.size()], part.first, part.lay});
    Matrix planned = plan_matrix(form_, as, outputs, inputs, sources);
    if (!fits(scales + planned.bytes())) return {};
    taken_ += planned.bytes();
    auto packed = pack(std::move(planned), sources, team_);
    if (!keep(packed)) return {};
    if (bias == Bias::kYes) add_bias(*packed, parts);
    return std::move(*packed);
  }
  std::vector<float> floats(const std::string& name, std::initializer_list<uint64_t> shape) {
    auto out = store_.floats(name, shape);
    return keep(out) ? std::move(*out) : std::vector<float>();
  }
  const base::Status& status() const { return status_; }

 private:
  template <class T>
  bool keep(const base::Result<T>& result) {
    if (!result && status_.ok()) status_ = result.error();
    return bool(result);
  }
  // Beside what was taken. A file of holes is as large as it says without taking a disk; its weights would take the
  // memory.
  bool fits(uint64_t bytes) {
    return keep(taken_ + bytes < machine_memory() ? base::Result<bool>(true)
                                                  : base::failure(base::Code::kResourceExhausted,
                                                                  "the weights take more than this machine's memory"));
  }
  void add_bias(Matrix& matrix, const std::vector<Part>& parts) {
    matrix.bias.assign(size_t(matrix.panels) * 16, 0);
    for (const auto& part : parts) {
      auto bias = floats(part.name + ".bias", {part.rows});
      for (uint32_t r = 0; r < bias.size(); ++r) matrix.bias[output_of(part.first, part.lay, part.rows, r)] = bias[r];
    }
  }

  const Store& store_;
  WeightFormat form_;
  ThreadTeam& team_;
  Quantization how_;
  base::Status status_;
  uint64_t taken_ = 0;
};

}  // namespace weir::llm
