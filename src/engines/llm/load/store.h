// Store: the arrays of a model's *.safetensors, or of its GGUF file, by name and checked shape; and the concept vectors
// of readouts.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engines/llm/load/files.h"
#include "engines/llm/load/gguf_model.h"
#include "engines/llm/load/safetensors.h"
#include "engines/llm/load/shape.h"

namespace weir::llm {

// Bytes of memory that this machine has.
uint64_t machine_memory();

// The arrays of the folder's *.safetensors: the one file, or those that model.safetensors.index.json names. Or those of
// a GGUF file, by the names that they would have there.
class Store {
 public:
  // `wanted` is asked before each array is given out; null: it is wanted. Errors: INVALID_ARGUMENT, NOT_FOUND, naming
  // the file.
  static base::Result<Store> open(const Folder& folder, std::function<bool()> wanted = {});
  // Errors: as named_arrays().
  static base::Result<Store> open(GgufModel model, std::function<bool()> wanted = {});
  // The array, if it has that shape, and holds floats (F32, F16, BF16, or blocks of GGUF's) or what `stored` says.
  // Errors: INVALID_ARGUMENT, naming it; UNAVAILABLE, nobody wants the model any more.
  base::Result<const Array*> find(const std::string& name, std::initializer_list<uint64_t> shape,
                                  std::optional<Stored> stored = {}) const;
  base::Result<std::vector<float>> floats(const std::string& name, std::initializer_list<uint64_t> shape) const;
  bool has(const std::string& name) const { return arrays_.contains(name); }
  // Null: there is none of that name.
  const Array* look_up(const std::string& name) const;
  const Arrays& arrays() const { return arrays_; }
  // How the greater part of the parameters is stored.
  Stored usual_form() const;
  base::Status add(const Folder& folder, const std::string& file);
  // Once all has been read. Errors: UNAVAILABLE, naming a file that was cut short, or could not be read, meanwhile:
  // what was read of it may be zeros.
  base::Status intact() const;

 private:
  struct File {
    std::string name;
    Mapping mapping;
  };
  std::function<bool()> wanted_;
  std::vector<File> files_;
  Arrays arrays_;
};

// The prefix of the names of a Llama-like model's arrays. Encoders are often stored without the outer name; those of
// models that also see have one more, before or after it.
std::string root_of(const Store& store);
// The name of its output matrix, where that is not the embedding.
std::string head_of(const Store& store);

// Concept vectors that hidden states are held against.
struct Readouts {
  std::vector<std::string> concepts;
  std::vector<uint32_t> layers;
  std::vector<float> vectors;  // [layers][concepts][hidden]
  std::string dtype;
};

// From readout.safetensors and readout.json; no concepts when they are not there. Errors: INVALID_ARGUMENT.
base::Result<Readouts> load_readouts(const Shape& shape, const Folder& folder);

}  // namespace weir::llm
