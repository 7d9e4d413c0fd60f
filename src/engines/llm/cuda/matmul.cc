#include "engines/llm/cuda/matmul.h"

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

Code matmul(const Launch& launch, Matmuls* matmuls, const Matmul& a) {
  if (!matmuls || a.inputs == 0 || (a.into == Matmul::Into::kBf16 && a.bias)) return kBadShape;
  if (a.rows == 0 || a.outputs == 0) return 0;
  return is_thin(a) ? thin_matmul(launch, a) : library_matmul(launch, *matmuls->library, a);
}

}  // namespace weir::llm::cuda
