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

  // The shared memory that the tensor has been written to; null: it is to travel with the answer.
  const RegionRange* shared(size_t tensor) const {
    return asked && tensor < asked->size() && (*asked)[tensor].shared ? &*(*asked)[tensor].shared : nullptr;
  }
};

}  // namespace weir::oip
