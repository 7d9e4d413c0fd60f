// Signature: the tensors that an ONNX graph takes and gives, and how they become a ModelSpec.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "msg/spec.h"
#include "msg/tensor.h"

namespace weir::onnx {

struct GraphTensor {
  std::string name;
  msg::DType dtype = msg::DType::kInvalid;  // kInvalid: a sequence, a map, or an element type that OIP has no name for
  msg::Shape shape;                         // as in the file, -1 where a dimension is unknown
  std::string first_symbol;                 // the name of an unknown first dimension ("batch"), often empty
  bool ranked = true;                       // false: the file gives no shape at all
  bool optional = false;                    // the file has a default value (an initializer) for this input
};

struct Signature {
  std::vector<GraphTensor> inputs;
  std::vector<GraphTensor> outputs;
};

// Rows in a batch when the file is batched and the configuration says nothing. The repository lowers it to its default.
inline constexpr uint32_t kDefaultMaxBatch = 32;

// The spec of a served model: `wanted` (the configuration) checked against the file and completed from it.
//
// Batched or not: a wanted max_batch > 0 asks for a batch dimension, and every tensor must have an unknown first one.
// With wanted.max_batch == 0 the parameter `max_batch` = "0", or a tensor listed with all its dimensions, says that
// shapes are whole. Otherwise the model is batched by kDefaultMaxBatch rows if the first dimension of every tensor is
// unknown and those that have a name, other than one that an exporter made up, share it.
//
// Tensors come in the order of `wanted` where it lists them, else of the file; required inputs must all be listed,
// outputs need not be, and names, types and dimensions must agree. Optional inputs are served only when listed.
// INVALID_ARGUMENT says what differs.
base::Result<msg::ModelSpec> derive(const Signature& file, const msg::ModelSpec& wanted);
// Says why the model is served without a batch dimension; empty where it has one. For the log.
std::string unbatched(const Signature& file, const msg::ModelSpec& wanted);

}  // namespace weir::onnx
