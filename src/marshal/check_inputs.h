// CheckInputs: long BYTES inputs of a Call are checked by a worker.
#pragma once

#include <vector>

#include "base/offload_task.h"
#include "base/status.h"
#include "marshal/check.h"
#include "msg/call.h"

namespace weir::marshal {

// For a Call that check_call() has found right with Strings::kPass: what that has left out.
class CheckInputs final : public base::OffloadTask {
 public:
  // Takes the inputs until hand_over().
  explicit CheckInputs(msg::Call& call) : inputs_(std::move(call.inputs)) {}
  void run() override;
  // After run(). Errors: INVALID_ARGUMENT naming the tensor.
  base::Status hand_over(msg::Call& call);

 private:
  std::vector<msg::Tensor> inputs_;
  base::Status status_;
};

}  // namespace weir::marshal
