// Adapter: a LoRA adapter's folder: adapter_config.json (adapter_config.h), and adapter_model.safetensors, whose arrays
// are called "base_model.model." + the module + ".lora_A.weight", F32, F16 or BF16 [rank][inputs], and ".lora_B.weight"
// [outputs][rank].
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engines/llm/load/array.h"
#include "engines/llm/load/files.h"
#include "engines/llm/load/shape.h"

namespace weir::llm {

// A part of a layer that an adapter can change: "self_attn.q_proj". Of a fused model the parts of its whole arrays are
// no modules.
struct AdapterModule {
  std::string name;
  uint32_t inputs = 0, outputs = 0;
};

class Adapter {
 public:
  // The two matrices of a module, and what their product is multiplied with.
  struct LowRank {
    uint32_t rank = 0;
    float scale = 0;
    const Array *a = nullptr, *b = nullptr;
  };

  // `path` is relative to the model's folder and leads through no link. Errors, naming `path` and the file: as those of
  // Folder and of parse_adapter_config(); INVALID_ARGUMENT for an array that is missing, has another shape, or is of
  // nothing that an adapter can change.
  static base::Result<Adapter> open(const Folder& model, const std::string& path, const Shape& shape);

  // Null: this module is as the model has it.
  const LowRank* find(uint32_t layer, std::string_view module) const;
  // As Store::intact().
  base::Status intact() const;

 private:
  friend class AdapterReading;
  std::string file_;
  Mapping mapping_;
  Arrays arrays_;
  std::map<std::pair<uint32_t, std::string>, LowRank, std::less<>> modules_;
};

}  // namespace weir::llm
