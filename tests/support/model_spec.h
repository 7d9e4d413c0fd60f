// The ModelSpec of a model of tensors, as benches serve it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "msg/spec.h"

namespace weir::support {

// Version 1 of an ONNX model; `max_batch` 0: without a batch dimension.
inline msg::ModelSpec model_spec(std::string name, std::vector<msg::TensorSpec> inputs,
                                 std::vector<msg::TensorSpec> outputs, uint32_t max_batch = 0) {
  msg::ModelSpec s;
  s.name = std::move(name);
  s.version = "1";
  s.engine = "onnx";
  s.platform = "onnxruntime_onnx";
  s.inputs = std::move(inputs);
  s.outputs = std::move(outputs);
  s.max_batch = max_batch;
  return s;
}

}  // namespace weir::support
