// Library: ONNX Runtime itself, opened at run time, and the one environment that its sessions live in.
//
// The shared object is never closed again: memory that it allocated (outputs on their way to a client) may be freed at
// any later time, from any thread. The Library is immutable after open(); sessions share it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engines/onnx/ort_api.h"

namespace weir::onnx {

struct Library {
  Api api{};
  std::string version;  // "1.21.0"
  Owned<OrtEnv> env{nullptr, nullptr};
  Owned<OrtMemoryInfo> cpu{nullptr, nullptr};
  OrtAllocator* allocator = nullptr;  // the library's own; never released
};

// Where the library is looked for, in order. A configured path stands alone; it may be the file or its folder. Else
// $WEIR_ONNXRUNTIME stands alone if set; else beside the executable and above it (onnxruntime/, and where `./dev
// setup` puts npm's package), and then wherever the system's loader looks.
std::vector<std::string> library_places(const std::string& configured);

// Whether the first of the places that there is has CUDA's provider beside it, which is a library of its own. Opens
// nothing.
bool has_cuda(const std::vector<std::string>& places);

// Opens the first place that has one, reads its table, and runs the self-test. FAILED_PRECONDITION when there is none,
// when it is older than 1.16, or when the self-test fails. A place that stands alone is named with what is wrong with
// it; of others only the log tells.
base::Result<std::shared_ptr<const Library>> open_library(const std::vector<std::string>& places);

}  // namespace weir::onnx
