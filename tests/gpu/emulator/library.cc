// Products of matrices that the kernels leave to a library: here the host version.
#include "engines/llm/cuda/matmul.h"
#include "engines/llm/cuda/reference.h"
#include "written.h"

namespace weir::llm::cuda {

constexpr uint32_t kRefusedOutputs = 61;

class Library {};

Code open_library(int32_t, void*, Library** out) {
  *out = new Library;
  return 0;
}
Code close_library(Library* library) {
  delete library;
  return 0;
}
// A number of outputs that kRefusedOutputs divides stands for what the library has no algorithm for.
Code library_matmul(const Launch&, Library&, const Matmul& a) {
  if (a.outputs % kRefusedOutputs == 0) return kRefused;
  emulator::begin_watch();  // as a kernel's
  reference::matmul(a);
  emulator::end_watch();
  return 0;
}

}  // namespace weir::llm::cuda
