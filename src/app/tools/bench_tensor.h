// Tensors of `weir bench`: what a model takes, and values for it.
#pragma once

#include <string>
#include <vector>

#include "app/remote.h"
#include "msg/tensor.h"

namespace weir::app {

// Asks the server for the model's signature (GET /v2/models/<model>) and makes a tensor for each of its inputs:
// `values` are NAME=VALUE with VALUE random, random:4x16, zeros, zeros:4x16 (a shape where the model leaves it open),
// @file.npy, or JSON as for `weir infer`; an input without a value is random. Sizes that are left open are 1. The same
// `seed` makes the same values. Errors: INVALID_ARGUMENT for a value, UNAVAILABLE, the server's words.
base::Result<std::vector<msg::Tensor>> bench_tensors(const Remote& remote, const std::string& model,
                                                     const std::vector<std::string>& values, uint64_t seed);

// Pure: one tensor. Numbers are from 0 to 1, whole ones from 0 to 99, texts eight letters.
base::Result<msg::Tensor> random_tensor(std::string name, msg::DType dtype, const msg::Shape& shape, uint64_t seed);

}  // namespace weir::app
