// CapturedGraphs: which runs of a model on a GPU are CUDA graphs (the parameter cuda.enable_cuda_graph). ONNX Runtime
// captures a graph the first time that a run names its number, and replays it from then on, with tensors of the same
// shapes at the same addresses. So a graph is of one number of rows and one slot of the engine, whose memory does not
// move.
//
// There is a graph for 1 row, each power of two, the preferred sizes of batches and the largest one; other sizes run
// without. The lane's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engines/onnx/session.h"
#include "msg/spec.h"

namespace weir::onnx {

// Whether the model asks for them.
bool wants_graphs(const msg::ModelSpec& spec);

class CapturedGraphs {
 public:
  static constexpr size_t kMostSizes = 16;

  // `stream` is the session's. Errors: FAILED_PRECONDITION for an input whose shape is not fixed, and for a library
  // before 1.17, which has one graph only.
  static base::Result<CapturedGraphs> make(const Library& library, const msg::ModelSpec& spec, uint32_t slots,
                                           const void* stream);

  // The sizes that have a graph, ascending; { 1 } for a model without batches.
  const std::vector<uint32_t>& sizes() const { return sizes_; }
  // The options of a run of so many rows in that slot. `tensors`: whether all tensors of the model are there.
  enum class Tensors : bool { kSome, kAll };
  const OrtRunOptions* options(uint32_t slot, uint32_t rows, Tensors tensors) const;

 private:
  std::vector<uint32_t> sizes_;
  std::map<std::pair<uint32_t, uint32_t>, Owned<OrtRunOptions>> captured_;  // by slot and rows
  Owned<OrtRunOptions> without_{nullptr, nullptr};
};

}  // namespace weir::onnx
