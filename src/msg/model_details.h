// ModelDetails: a model as its files describe it (family, size, quantization), for clients that choose a model:
// Ollama's `details` and `model_info`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

namespace weir::msg {

// Unknown fields are empty, or 0.
struct ModelDetails {
  // std::monostate: a list that is left out.
  using Fact = std::variant<std::monostate, bool, int64_t, double, std::string>;

  // The engine's.
  std::string format;        // "gguf", "safetensors", "onnx"
  std::string family;        // a GGUF file's general.architecture, a config.json's model_type: "llama", "qwen3"
  std::string quantization;  // "Q4_K_M", "BF16", "AWQ"
  uint64_t parameters = 0;   // numbers in the model's arrays
  std::map<std::string, Fact> facts;  // by the names of GGUF's fields: "general.architecture", "llama.context_length"

  // The repository's, of the version's files.
  uint64_t bytes = 0;
  int64_t modified_ms = 0;  // Unix time
  std::string digest;       // 64 hexadecimal digits, others where a file is another one
};

}  // namespace weir::msg
