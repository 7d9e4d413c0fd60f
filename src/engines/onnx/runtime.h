// Runtime: the maker of ONNX engines. app makes one; nothing happens until the first model is loaded. main() sets
// ORT_DISABLE_TELEMETRY, without which release 1.30 reports to its vendor's servers.
//
//   onnx::Runtime runtime(options);
//   engines["onnx"] = [&](const models::LoadArgs& a) { return runtime.load(a.wanted, a.file, a.slabs); };
//
// A missing or unusable library is the failure of each load, so that it shows in that model's index entry while the
// rest serves on; the next load looks again. Any thread may load, several beside each other: of one file one after the
// other, so that they share its session; on one GPU, too.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "engines/onnx/options.h"
#include "msg/spec.h"
#include "sched/engine.h"

namespace weir::device {
class Devices;
}

namespace weir::onnx {

struct Options {
  std::string library;     // path of libonnxruntime.so.1 or of its folder; empty: see library_places()
  SessionOptions session;  // defaults; a model's own parameters override them
};

// The needs of models on a device (parameter `device`: cuda:1, host); all of it outlives the engines.
struct Place {
  device::Devices* devices = nullptr;
  std::function<void(base::Status)> broken{};  // called once, from the lane, when the engine cannot go on
  // Asked before a session is made, which cannot be cut short. False: nobody wants the model any more. Null: it is
  // wanted.
  std::function<bool()> loading{};
  // Waits until nobody else loads on that device ("cuda:0"), and keeps others waiting until the result is destroyed;
  // null where nobody wants the model any more. Without it nobody else may load at the same time.
  std::function<std::shared_ptr<void>(const std::string& device)> turn{};
};

class Runtime {
 public:
  explicit Runtime(Options options);
  ~Runtime();  // engines, and outputs that they made, may outlive it

  // Loads `file` (a model file, or a folder with model.onnx) as `wanted` asks; signature.h says what may be left
  // empty. Engines loaded from the same bytes with the same options share one session; on a device each has its own.
  // `slabs` outlives the engine.
  base::Result<std::unique_ptr<sched::Engine>> load(const msg::ModelSpec& wanted, const std::string& file,
                                                    base::SlabSource& slabs, const Place& place = {});

  // The library's version, "1.21.0"; empty until a model was loaded.
  std::string version() const;
  // Sessions alive now.
  size_t sessions() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::onnx
