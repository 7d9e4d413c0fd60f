// Warm-up: sample requests that every instance of a model runs before the model is READY (Triton's model_warmup), so
// that the first real request does not pay for what an engine does once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "models/folder.h"
#include "msg/spec.h"
#include "sched/decoupled_engine.h"
#include "sched/engine.h"

namespace weir::models {

struct WarmUpInput {
  // kZero: zeros, and empty BYTES. kRandom: floats in [0, 1), whole numbers and BOOL of 0 and 1, so that they are
  // indices of anything with two rows, and BYTES of one letter; the same at each load. kFile: the tensor's bytes,
  // or those of one row, which all rows have then, as Triton has it.
  enum class Source : uint8_t { kZero, kRandom, kFile };
  msg::DType dtype = msg::DType::kInvalid;
  msg::Shape shape;  // of one row where the model is batched
  Source source = Source::kZero;
  std::string file;  // below the model's folder: "warmup/<name>"
};

struct WarmUpSample {
  std::string name;
  uint32_t rows = 1;   // of models that are batched
  uint32_t count = 1;  // how often it runs
  std::map<std::string, WarmUpInput> inputs;
};

inline constexpr size_t kMostSamples = 100;
inline constexpr uint32_t kMostWarmUps = 1000;                 // WarmUpSample::count
inline constexpr uint64_t kLargestSample = uint64_t(1) << 30;  // bytes of one tensor

// Runs all samples on one instance, which nobody else uses yet. Errors: the engine's, or what does not fit the model;
// they name the sample.
base::Status warm_up(sched::Engine& engine, const msg::ModelSpec& spec, const ModelFolder& folder,
                     const std::vector<WarmUpSample>& samples, base::SlabSource& slabs);

// The same of a model that answers any number of times, before its Inbox is made: each instance runs all samples, to
// the last answer, of which one that is an error is the end. `loading` is asked every few milliseconds: once it is
// false the server ends, and nothing is waited for. A sample that has no end within five minutes is DEADLINE_EXCEEDED.
base::Status warm_up(sched::DecoupledEngine& engine, const msg::ModelSpec& spec, const ModelFolder& folder,
                     const std::vector<WarmUpSample>& samples, const std::function<bool()>& loading);

}  // namespace weir::models
