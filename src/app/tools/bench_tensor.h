// Tensors of `weir bench`: what a model takes, and values for it.
#pragma once

#include <string>
#include <vector>

#include "app/remote.h"
#include "msg/tensor.h"

namespace weir::app {

struct BenchInput {
  std::string name;
  msg::DType dtype = msg::DType::kInvalid;
  msg::Shape shape;  // -1 is any size
  bool optional = false;
};
struct BenchSignature {
  std::vector<BenchInput> inputs;

  bool is_text() const;  // it takes a prompt (the input text_input) and makes tokens
};
// Asks the server for the model's signature (GET /v2/models/<model>, and its /config, which alone says which inputs are
// optional; a server that has none has no such inputs). Errors: UNAVAILABLE, the server's words.
base::Result<BenchSignature> bench_signature(const Remote& remote, const std::string& model);

// Values for the inputs of a model of text.
enum class BenchAnswers : uint8_t { kWhole, kStreamed };
std::vector<std::string> prompt_values(const std::string& prompt, uint32_t max_tokens, BenchAnswers answers);
// Asks the server for the tokens of a prompt, as a turn of a conversation (POST /tokenize).
base::Result<std::vector<uint32_t>> prompt_tokens(const Remote& remote, const std::string& model,
                                                  const std::string& prompt);

// Makes a tensor for each input that has a value or must be there:
// `values` are NAME=VALUE with VALUE random, random:4x16, zeros, zeros:4x16 (a shape where the model leaves it open),
// @file.npy, or JSON as for `weir infer`; without a value an input is random, an optional one is left out. Sizes that
// are left open are 1. The same `seed` makes the same values. Errors: INVALID_ARGUMENT for a value.
base::Result<std::vector<msg::Tensor>> bench_tensors(const BenchSignature& signature,
                                                     const std::vector<std::string>& values, uint64_t seed);

// Pure: one tensor. Numbers are from 0 to 1, whole ones from 0 to 99, texts eight letters.
base::Result<msg::Tensor> random_tensor(std::string name, msg::DType dtype, const msg::Shape& shape, uint64_t seed);

}  // namespace weir::app
