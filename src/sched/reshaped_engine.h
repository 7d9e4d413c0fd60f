// Triton's `reshape`: the tensors of a model have other shapes than those that clients see.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "msg/tensor.h"
#include "sched/engine.h"

namespace weir::sched {

// Both without the batch dimension. They have as many elements, and as many dimensions of any size (-1), which
// correspond to each other in order.
struct Reshape {
  std::string tensor;
  msg::Shape seen;   // by clients
  msg::Shape model;  // by the engine
};

// Whether the two have equally many elements, whatever sizes their free dimensions get.
bool can_reshape(const msg::Shape& seen, const msg::Shape& model);
// The shape of a tensor that is `given`, with `batch` leading dimensions and then `from`, as one of `to`. A tensor of
// another rank stays as it is.
msg::Shape reshape(const msg::Shape& given, size_t batch, const msg::Shape& from, const msg::Shape& to);

// The engine with the shapes that clients see in spec(). Nothing is copied: the same bytes get another shape. Errors:
// INVALID_ARGUMENT for a tensor that the engine does not have; UNIMPLEMENTED for a model that takes any tensors, or
// ragged ones.
base::Result<std::unique_ptr<Engine>> make_reshaped(std::unique_ptr<Engine> engine, const std::vector<Reshape>& inputs,
                                                    const std::vector<Reshape>& outputs);

}  // namespace weir::sched
