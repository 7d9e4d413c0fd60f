// The Engine of a model on a device: a batch goes from pinned slabs to the device's memory once, ONNX Runtime computes
// there, from bound inputs to bound outputs, and the outputs come back into pinned slabs (sched/device_engine.h). On a
// GPU the session works on the engine's own stream and nobody waits for it, so that batches overlap; each instance has
// a session for itself.
//
// The size of each output is known before the step (its shape in the file or the configuration has no free dimension
// but the batch's), and there are no strings: why_not_on_device() says what keeps a model from it. Such models run on
// the GPU, too, but the library copies their tensors.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "engines/onnx/session.h"
#include "msg/spec.h"
#include "sched/device_engine.h"

namespace weir::onnx {

// Empty where nothing does. `spec` is derive()'s answer.
std::string why_not_on_device(const msg::ModelSpec& spec);

// Makes the session of an engine, for the stream that the engine computes on (null where the device is the host).
using MakeSession = std::function<base::Result<std::shared_ptr<const Session>>(void* stream)>;

// `file`: the session's own description of the model goes into `derive`, whose answer is the engine's spec. Errors: of
// the device, of `make` and of `derive`; UNIMPLEMENTED for a model that why_not_on_device().
using Derive = std::function<base::Result<msg::ModelSpec>(const Signature& file)>;
base::Result<std::unique_ptr<sched::Engine>> make_device_engine(sched::DeviceEngine::Deps deps, const MakeSession& make,
                                                                const Derive& derive);

}  // namespace weir::onnx
