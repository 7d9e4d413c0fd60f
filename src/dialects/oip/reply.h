// An infer response before it has a form.
#pragma once

#include <string_view>
#include <vector>

#include "msg/call.h"

namespace weir::oip {

struct InferReply {
  std::string_view model, version, id;
  const msg::Parameters& parameters;
  const std::vector<msg::Tensor>& tensors;
};

}  // namespace weir::oip
