// The texts of a request for scores as ids.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "dialects/openai/scores/request.h"
#include "msg/spec.h"

namespace weir::openai::scores {

// Without the model's own ids around pairs. They are put together when they are sent, so that a long query is not held
// once for each document.
struct Texts {
  std::vector<std::vector<uint32_t>> first, second;  // as in Request; of classes `first` alone
  size_t most = 0;                                   // ids of one row

  size_t bytes() const;
};

// Cuts what Request::cut says. Moves ids out of the request. Any thread. Errors: 400 naming the member. Ends early,
// with any texts, once `cancelled` (or null) is true.
ApiError encode_texts(Request& request, ScoreApi api, const msg::TextSpec& spec, const std::atomic<bool>* cancelled,
                      Texts& out);

}  // namespace weir::openai::scores
