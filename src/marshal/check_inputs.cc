#include "marshal/check_inputs.h"

#include <string>
#include <utility>

namespace weir::marshal {

void CheckInputs::run() {
  for (size_t i = 0; i < inputs_.size() && status_.ok(); ++i) {
    if (inputs_[i].dtype != msg::DType::kBytes) continue;
    status_ = check_data(inputs_[i]);
    if (!status_.ok()) status_ = base::invalid_field("inputs[" + std::to_string(i) + "]", std::move(status_.text));
  }
}

base::Status CheckInputs::hand_over(msg::Call& call) {
  call.inputs = std::move(inputs_);
  return std::move(status_);
}

}  // namespace weir::marshal
