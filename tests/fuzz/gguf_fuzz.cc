// Any bytes as a GGUF file: it is refused, or every tensor lies inside of it and can be read, and what its fields say
// becomes the texts of a Hugging Face folder or is refused.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "engines/llm/encoder/bert_shape.h"
#include "engines/llm/load/gguf_texts.h"
#include "engines/llm/load/shape.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir::llm;  // NOLINT: a program of one file
  auto file = std::as_bytes(std::span(data, size));
  auto gguf = parse_gguf(file);
  if (!gguf) return 0;
  size_t total = 0;
  for (const auto& [name, array] : gguf->tensors) {
    total += array.data.size();
    if (array.data.data() < file.data() || &array.data.back() > &file.back()) std::abort();
    std::vector<float> values(array.elements());
    read_floats(array, 0, values.size(), values.data());
  }
  if (total > size) std::abort();
  if (auto arrays = named_arrays(*gguf))
    for (const auto& [name, array] : *arrays) {
      std::vector<float> values(array.elements());
      read_floats(array, 0, values.size(), values.data());
    }
  if (auto config = config_of(*gguf)) (void)parse_shape(*config), (void)parse_bert_shape(*config);
  (void)tokenizer_of(*gguf);
  (void)tokenizer_config_of(*gguf);
  return 0;
}
