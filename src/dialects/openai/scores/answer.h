// The answer to a request for scores, in the form of the API that asked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/openai/scores/request.h"

namespace weir::openai::scores {

struct Scored {
  const Request& request;
  ScoreApi api;
  std::span<const std::string> labels;  // of the model
  std::vector<float> values;            // one per label of the first row, then of the second, …

  std::span<const float> row(size_t i) const { return std::span(values).subspan(i * labels.size(), labels.size()); }
};

// All that stands around the scores.
struct ScoresFrame {
  std::string id, model;
  int64_t created = 0;  // seconds of the epoch
  uint64_t tokens = 0;
};

std::string write_answer(const Scored& scored, const ScoresFrame& frame);

}  // namespace weir::openai::scores
