// Staging: a batch's calls → its inputs; and back: its outputs → one answer per call. Pure; lane thread.
//
// A single call is not copied: the batch's inputs alias its tensors. Several calls are copied once, row after row, into
// one slab per input, unless the engine takes them where they lie. Outputs are never copied: each call gets slices of
// the engine's.
#pragma once

#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"
#include "sched/engine.h"

namespace weir::sched {

// Fills rows, inputs (of ragged models none) and wanted for batch.calls, which fit() the spec and share their shapes.
// False, when there is no memory for a copy now: run the calls one by one then, which needs none. kNot: without inputs,
// for engines that read those of the calls. `engine`, where there is one, is asked which rows it takes where they lie.
enum class Gather : uint8_t { kInputs, kNot };
bool stage(Batch& batch, const msg::ModelSpec& spec, base::SlabSource& slabs, Gather gather = Gather::kInputs,
           const Engine* engine = nullptr);

// In place of a Split, for the only call of a batch where it wants all outputs, and all are there and right: they move
// to `outputs`, which was empty. False: nothing has happened; a Split gives what there is, or says what is wrong.
bool move_outputs(Batch& batch, const msg::ModelSpec& spec, std::vector<msg::Tensor>& outputs);

// Takes a batch that has run apart. One use per batch.
class Split {
 public:
  struct Part {
    size_t from = 0, bytes = 0;
  };
  // `scratch` is used while the Split lives.
  Split(Batch& batch, const msg::ModelSpec& spec, std::vector<Part>& scratch);

  // INTERNAL when an output does not have the batch's rows, or not the bytes that its shape asks for: then nobody can
  // say whose rows they are, and no call of the batch is answered with them.
  const base::Status& status() const { return status_; }

  // The answer of the next call, in order of batch.calls: its failure, or the outputs that it asked for, in its order.
  // Outputs that are absent fail it with INTERNAL.
  base::Status next(std::vector<msg::Tensor>& outputs);

 private:
  base::Status check(const msg::Tensor& tensor) const;
  void cut(size_t output, uint64_t rows);
  bool given(size_t output) const;
  base::Status take(size_t output, std::string_view name, uint32_t rows, std::vector<msg::Tensor>& to);
  base::Status take_named(std::string_view name, uint32_t rows, std::vector<msg::Tensor>& to);

  Batch& batch_;
  const msg::ModelSpec& spec_;
  const bool alone_;
  base::Status status_;
  size_t call_ = 0;
  std::vector<Part>& parts_;  // per output: where the rows of the call at hand are
};

}  // namespace weir::sched
