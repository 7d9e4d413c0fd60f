// An infer response before it has a form.
#pragma once

#include <string_view>
#include <vector>

#include "dialects/oip/infer_options.h"
#include "msg/call.h"

namespace weir::oip {

struct InferReply {
  std::string_view model, version, id;
  const msg::Parameters& parameters;
  const std::vector<msg::Tensor>& tensors;
  const std::vector<OutputOptions>* asked = nullptr;  // for each tensor, or for none
  const base::Status* error = nullptr;                // in place of tensors, where the Call takes_errors

  // The tensor has been written to shared memory, and does not travel with the answer.
  bool shared(size_t tensor) const { return asked && tensor < asked->size() && (*asked)[tensor].shared.has_value(); }
};

}  // namespace weir::oip
