// One input of a request, made from what a person writes on the command line: NAME=VALUE or NAME:SHAPE=VALUE.
//
//   [1,2] [[1,2],[3,4]] 7 "word"   JSON; a bare word for BYTES
//   zeros ones random              of the shape; random: the same numbers each time, integers 0 to 99, else [0, 1)
//   @file.npy                      as NumPy saved it
//   @picture.jpg (png, webp)       of an input of numbers: decoded and resized to its shape, [3|1,H,W] or [H,W,3|1];
//                                  8-bit integers take 0 to 255, floats 0 to 1
//   @any file                      of a BYTES input: its bytes are the one element
//
// SHAPE is 1,3,224,224 or 1x3x224x224. Without it, it is the model's, with 1 for each dimension that is free.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"

namespace weir::app {

// An input as the model's metadata has it; `shape` has -1 for what is free, the batch dimension included.
struct WantedInput {
  std::string name, datatype;
  std::vector<int64_t> shape;
  bool known = true;  // false: the model takes any tensors
};

struct GivenInput {
  std::string name;
  std::vector<int64_t> shape;  // empty: it is not said
  std::string value;
};

struct InferInput {
  nlohmann::json head;  // one entry of the request's "inputs"
  std::string blob;     // binary data behind the JSON, when there is any
};

// Names may have colons: "images:0=zeros" is an input "images:0" where the model has one. Errors: INVALID_ARGUMENT for
// what has no '='.
base::Result<GivenInput> read_input(const std::string& text, const std::vector<WantedInput>& wanted);
// Reads the file that the value names, if it names one. Errors: INVALID_ARGUMENT, naming the input.
base::Result<InferInput> make_input(const GivenInput& given, const WantedInput& wanted);

// "INPUT0 INT32[-1,16]"
std::string text_of(const WantedInput& wanted);

}  // namespace weir::app
