// KServe's V1 protocol, which is TensorFlow Serving's REST API: JSON without shapes or types, on the same models. One
// per shard, used on its thread.
//
//   GET  /v1/models                               {"models": [names]}
//   GET  /v1/models/{model}                       {"name": …, "ready": true, "model_version_status": [versions]}
//   GET  /v1/models/{model}/versions/{v}          the same, of that version
//   POST /v1/models/{model}:predict               instances -> predictions, or inputs -> outputs
//   POST /v1/models/{model}/versions/{v}:predict  the same, of that version
//   POST /v1/models/{model}:explain               501: no model here explains itself
//
// OpenAI's dialect has the two GETs too, where it is on; its answers hold these members beside its own.
#pragma once

#include <functional>
#include <memory>

#include "base/bytes.h"
#include "bus/bus.h"
#include "wire/router.h"

namespace weir::wire {
class Offload;
}

namespace weir::dialects {
class Dialect;
}

namespace weir::predict {

struct PredictOptions {
  uint64_t max_body = 64 << 20;      // of one HTTP request
  std::function<bool()> accepting;   // the server takes requests; called on this shard's thread
  wire::Offload* offload = nullptr;  // reads and writes long JSON; null: the shard does
};

class Predict {
 public:
  // Adds the routes. All borrowed; they and this outlive every Exchange of the router.
  Predict(bus::Bus& bus, wire::Router& router, base::SlabSource& slabs, PredictOptions options);
  ~Predict();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The protocol with its settings at their defaults.
std::unique_ptr<dialects::Dialect> make_dialect();

}  // namespace weir::predict
