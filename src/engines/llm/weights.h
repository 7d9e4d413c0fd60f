// Weights: a transformer's parameters, packed for this CPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engines/llm/files.h"
#include "engines/llm/matrix.h"
#include "engines/llm/shape.h"

namespace weir::llm {

struct Layer {
  std::vector<float> input_norm, post_norm;
  std::vector<float> q_norm, k_norm;  // per head; empty when the model has none
  Matrix qkv, out, gate_up, down;     // q, k, v one after the other; gates and ups in turns of a panel
};

// Concept vectors that hidden states are held against.
struct Readouts {
  std::vector<std::string> concepts;
  std::vector<uint32_t> layers;
  std::vector<float> vectors;  // [layers][concepts][hidden]
  std::string dtype;
};

struct Weights {
  Matrix embedding;  // also the output matrix when there is no `head`
  Matrix head;       // outputs = 0 when the two are one
  std::vector<Layer> layers;
  std::vector<float> norm;
  const Matrix& output() const { return head.outputs > 0 ? head : embedding; }
};

// What the folder's *.safetensors hold: the one file, or those that model.safetensors.index.json names.
class Store {
 public:
  // Errors: INVALID_ARGUMENT, NOT_FOUND, naming the file.
  static base::Result<Store> open(const Folder& folder);
  // The array, if it has that shape. Errors: INVALID_ARGUMENT, naming it.
  base::Result<const Array*> find(const std::string& name, std::initializer_list<uint64_t> shape) const;
  base::Result<std::vector<float>> floats(const std::string& name, std::initializer_list<uint64_t> shape) const;
  bool has(const std::string& name) const { return arrays_.contains(name); }
  // How the greater part of the parameters is stored.
  Stored usual_form() const;
  base::Status add(const Folder& folder, const std::string& file);

 private:
  std::vector<Mapping> files_;
  Arrays arrays_;
};

// What names of a Llama-like model's arrays begin with. Encoders are often stored without the outer name.
std::string root_of(const Store& store);

base::Result<Weights> load_weights(const Shape& shape, const Store& store, WeightFormat form, ThreadTeam& team);

// From readout.safetensors and readout.json; no concepts when they are not there. Errors: INVALID_ARGUMENT.
base::Result<Readouts> load_readouts(const Shape& shape, const Folder& folder);

}  // namespace weir::llm
