// Any bytes as a safetensors file: it is refused, or every array lies inside of it and can be read; so can those of
// each expert that such arrays become.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "engines/llm/load/expert_arrays.h"
#include "engines/llm/load/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir::llm;  // NOLINT: a program of one file
  auto file = std::as_bytes(std::span(data, size));
  Arrays arrays;
  bool good = parse_safetensors(file, arrays).ok();
  size_t total = 0;
  for (const auto& [name, array] : arrays) {
    total += array.data.size();
    if (!array.data.empty() && (array.data.data() < file.data() || &array.data.back() > &file.back())) std::abort();
    if (!is_float(array.dtype)) continue;
    std::vector<float> values(array.elements());
    read_floats(array, 0, values.size(), values.data());
  }
  if (total > size || (!good && !arrays.empty())) {
    std::fprintf(stderr, "broken: arrays of a refused file, or more bytes than there are\n");
    std::abort();
  }
  if (!good || !part_packed_experts(arrays).ok()) return 0;
  for (const auto& [name, array] : arrays) {
    if (!array.data.empty() && (array.data.data() < file.data() || &array.data.back() > &file.back())) std::abort();
    if (!is_float(array.dtype)) continue;
    std::vector<float> values(array.elements());
    read_floats(array, 0, values.size(), values.data());
  }
  return 0;
}
