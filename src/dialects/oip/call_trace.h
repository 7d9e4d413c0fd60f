// CallTrace: one request on its way, as Traces sees it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dialects/oip/trace.h"

namespace weir::oip {

class CallTrace {
 public:
  // The request has its inputs. Only the first time counts.
  void begin(Traces& traces, const std::string& model, const msg::Call& call) {
    if (std::exchange(counted_, true)) return;
    traced_ = traces.begin(model);
    if (has_tensors()) traced_->tensors.add("TENSOR_QUEUE_INPUT", call.inputs);
  }
  void add_answer(const std::vector<msg::Tensor>& tensors) {
    if (has_tensors()) traced_->tensors.add("TENSOR_BACKEND_OUTPUT", tensors);
  }
  // It is over; it may have been refused before it began. Only the first time counts.
  void end(Traces& traces, const std::string& model, const msg::Call& call, std::string_view protocol,
           base::Code code) {
    begin(traces, model, call);
    if (const auto traced = std::exchange(traced_, nullptr)) traces.finished(*traced, model, call, protocol, code);
  }

 private:
  bool has_tensors() const { return traced_ && (traced_->levels & Traced::kTensors) != 0; }

  bool counted_ = false;
  std::unique_ptr<Traced> traced_;  // null: it is not traced, or has ended
};

}  // namespace weir::oip
