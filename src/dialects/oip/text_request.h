// The body of POST …/generate for a model of text (generate.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "marshal/generation_params.h"
#include "msg/spec.h"

namespace weir::oip {

struct TextRequest {
  std::string id, input, sampling;
  marshal::GenerationParams params;
  std::vector<std::string> bad_words;
  std::optional<int64_t> end_id;
  bool details = false, stream = false, without_prompt = true;
  uint32_t priority = 0;
};

// Errors: INVALID_ARGUMENT, naming the member.
base::Status read_text_request(std::string_view body, TextRequest& out);

// Puts bad_words and end_id into the params, as the model's tokens have them: a bad word, alone and behind
// a space, gets a bias that keeps it out. Errors: INVALID_ARGUMENT for a bad word of several tokens, and for an id that
// is not in the vocabulary.
base::Status place_words(TextRequest& request, const msg::TextSpec& spec);

}  // namespace weir::oip
