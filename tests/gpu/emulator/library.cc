// Products of matrices and collectives, which the kernels leave to libraries: here the host versions.
#include "engines/llm/cuda/matmul.h"
#include "engines/llm/cuda/nccl.h"
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

Code open_communicators(const int32_t* devices, uint32_t ranks, Communicator** out) {
  return reference::kCollectives.open(devices, ranks, out);
}
Code close_communicator(Communicator* communicator) { return reference::kCollectives.close(communicator); }
Code all_reduce(const Launch& launch, Communicator* communicator, float* values, size_t count) {
  return reference::kCollectives.all_reduce(launch, communicator, values, count);
}
Code broadcast(const Launch& launch, Communicator* communicator, float* values, size_t count) {
  return reference::kCollectives.broadcast(launch, communicator, values, count);
}
Code communicator_error(Communicator* communicator) { return reference::kCollectives.error(communicator); }
void abort_communicator(Communicator* communicator) { reference::kCollectives.abort(communicator); }

}  // namespace weir::llm::cuda
