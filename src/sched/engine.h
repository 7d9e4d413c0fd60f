// Engine: what runs a model. One step takes a batch of rows and fills its outputs.
//
// An Engine is owned by the lanes of one model version. With `instances: N` there are N Engines, each used by one lane
// thread at a time; nothing in it needs a lock. An inline engine is stepped on shards instead and must be thread-safe
// and shorter than a thread hop (about 1 µs).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/env.h"
#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::sched {

// Rows that run together. `inputs` is in the order of the ModelSpec (or of the single Call, when the model takes any
// tensors); absent optional inputs have dtype kInvalid. A batched model's tensors have the batch dimension first. A
// ragged model has no `inputs` here: its engine reads those of `calls`.
struct Batch {
  std::vector<msg::Call*> calls;  // in row order; calls[i]->rows rows each
  uint32_t rows = 0;
  std::vector<msg::Tensor> inputs;
  // Per input, or without an entry: where its data is empty because the rows stay where the calls have them
  // (takes_rows()), these rows in the order of `calls`, and their bytes; else 0.
  struct Apart {
    size_t bytes = 0;
    std::vector<const msg::Tensor*> rows;
  };
  std::vector<Apart> apart;
  size_t input_bytes(size_t i) const {
    return i < apart.size() && apart[i].bytes > 0 ? apart[i].bytes : inputs[i].data.size();
  }
  std::vector<bool> wanted;            // per output of the spec; empty = all. An engine may produce more.
  std::vector<msg::Tensor> outputs;    // filled by the engine, in the order of the spec, batch dimension first
  std::vector<base::Status> failures;  // empty, or one per call: rows that failed alone
  // In place of `outputs` and `failures`, by engines that read_calls(): one answer per call, in their order, with the
  // outputs that the call asks for. Empty: there are `outputs`.
  std::vector<base::Result<msg::Outputs>> answers;

  // For engines that work beside their lane: which of the depth() batches this is, and when it was found to be so far.
  uint32_t slot = 0;
  struct Marks {
    base::Time arrived = base::kNever;   // the inputs are on the device
    base::Time computed = base::kNever;  // the outputs are there, too
    base::Time landed = base::kNever;    // and back on the host
  } marks;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // The spec as the model file has it: tensors, max_batch, platform. The repository's configuration is laid over it.
  virtual const msg::ModelSpec& spec() const = 0;

  // Runs one batch to its end. A failed Status fails every call of the batch; the lane then runs them one by one, so
  // that a bad row fails alone. Lane thread.
  virtual base::Status step(Batch& batch) = 0;

  // Engines that work beside their lane, as those on devices do, have room for more than one batch. The lane then does
  // not step(): it gives one batch to launch(), prepares the next one meanwhile, and asks poll() until the first has
  // landed, in the order in which they were launched. step() must do the same in one go, on a slot that is free.
  virtual uint32_t depth() const { return 1; }
  // Queues all that the batch needs and returns. While it is under way nothing of it is touched but its marks and
  // outputs, by poll(). RESOURCE_EXHAUSTED: nothing is queued; it may go once others have landed. Lane thread.
  virtual base::Status launch(Batch& /*batch*/) { return base::failure(base::Code::kUnimplemented, "no launch"); }
  // Asks for the batch that was launched first among those under way. kLanded or a Status: the batch is over. Never
  // waits.
  enum class Landing : uint8_t { kUnderWay, kLanded };
  virtual base::Result<Landing> poll(Batch& /*batch*/) { return Landing::kLanded; }
  // Where batches are gathered; null: wherever the lane likes. For memory that a device copies from.
  virtual base::SlabSource* staging() { return nullptr; }
  // Whether the engine takes these rows, one call's part of an input, where they lie. If it does so for all calls of a
  // batch, they are not gathered: the input is `apart`. Lane thread.
  virtual bool takes_rows(const msg::Tensor& /*rows*/) const { return false; }
  // The engine reads the inputs of `calls` and answers each call by itself: nothing is gathered. It takes a Batch with
  // `inputs`, too, where something else has gathered them.
  virtual bool reads_calls() const { return false; }
  // The engine may keep something from one request of a sequence to the next that is not in the outputs, as code of a
  // model's own may: all requests of a sequence are given to the same instance.
  virtual bool keeps_states() const { return reads_calls(); }
  // Where the model runs: "cpu", "cuda:1".
  virtual std::string_view place() const { return "cpu"; }

  // Engines that break one by one, as processes of their own do, say whether this one has. The lane of one that is
  // kLost takes no calls while others of the model do. kTogether: what breaks one instance breaks them all. Any thread.
  enum class Health : uint8_t { kTogether, kAlive, kLost };
  virtual Health health() const { return Health::kTogether; }

  // Stepped on the caller's shard, without a lane.
  virtual bool is_inline() const { return false; }
};

}  // namespace weir::sched
