// CheckInputs: the task in which a worker checks the long BYTES inputs of a Call.
#pragma once

#include <vector>

#include "base/offload_task.h"
#include "base/status.h"
#include "marshal/check.h"
#include "msg/call.h"

namespace weir::marshal {

// Checks the lengths that check_call() with StringLengths::kSkip has left out.
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
