#include "engines/llm/cuda/matmul.h"

#include <algorithm>

namespace weir::llm::cuda {

struct Matmuls {
  Library* library = nullptr;
};

Code matmul_open(int32_t device, void* workspace, Matmuls** out) {
  *out = nullptr;
  Library* library = nullptr;
  if (auto code = open_library(device, workspace, &library)) return code;
  *out = new Matmuls{library};
  return 0;
}

Code matmul_close(Matmuls* matmuls) {
  if (!matmuls) return 0;
  Code code = close_library(matmuls->library);
  delete matmuls;
  return code;
}

// The rows of `a` from `first` on, as many as the thin kernel takes.
Matmul thin_part(const Matmul& a, uint32_t first) {
  Matmul part = a;
  const size_t out = size_t(first) * a.outputs;
  part.x += size_t(first) * a.inputs;
  part.rows = std::min(a.rows - first, kThinRowsMost);
  if (a.into == Matmul::Into::kBf16)
    part.out = static_cast<Bf16*>(a.out) + out;
  else
    part.out = static_cast<float*>(a.out) + out;
  return part;
}

Code matmul_in_parts(const Launch& launch, const Matmul& a) {
  for (uint32_t first = 0; first < a.rows; first += kThinRowsMost)
    if (Code code = thin_matmul(launch, thin_part(a, first))) return code;
  return 0;
}

Code matmul(const Launch& launch, Matmuls* matmuls, const Matmul& a) {
  if (!matmuls || a.inputs == 0 || (a.into == Matmul::Into::kBf16 && a.bias)) return kBadShape;
  if (a.rows == 0 || a.outputs == 0) return 0;
  if (a.weight.format != Format::kBf16) {
    if (!is_coded_right(a.weight, a.inputs) || !is_aligned(a)) return kBadShape;
    return a.rows <= kThinRows ? thin_coded_matmul(launch, a) : coded_matmul(launch, a);
  }
  if (is_thin(a)) return thin_matmul(launch, a);
  const Code code = library_matmul(launch, *matmuls->library, a);
  return code == Code(kRefused) && is_aligned(a) ? matmul_in_parts(launch, a) : code;
}

}  // namespace weir::llm::cuda
