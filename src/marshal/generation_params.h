// What a request says of how its text is to be made: the members that the OpenAI endpoints and the Open Inference
// Protocol's generate endpoints have in common, with the same names and bounds.
//
//   max_tokens 0…2^31-1          min_tokens 0…2^31-1           temperature 0…2
//   top_p 0…1 (0: the best token alone)                        top_k -1…2^31-1 (-1 and 0: all)
//   min_p 0…1                    presence_penalty, frequency_penalty -2…2
//   repetition_penalty 0.01…100  seed -2^63…2^64-1             logit_bias {"id": -100…100}, 1024 of them
//   stop string or list of 16, 1…256 bytes each                stop_token_ids list of 64
//   ignore_eos, include_stop_str_in_output, skip_special_tokens: true or false
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "marshal/field_reader.h"
#include "msg/generate.h"
#include "msg/spec.h"

namespace weir::marshal {

struct TextFields {
  std::optional<uint32_t> max_tokens, min_tokens;
  std::optional<float> temperature, top_p, min_p, presence_penalty, frequency_penalty, repetition_penalty;
  std::optional<int64_t> top_k;
  std::optional<uint64_t> seed;
  std::vector<std::pair<uint32_t, float>> logit_bias;
  std::vector<std::string> stop;
  std::vector<uint32_t> stop_ids;
  bool ignore_eos = false;
  bool include_stop = false;
  bool skip_special = true;
};

// Whether `name` is one of these members; then its value has been consumed, and `ok` says whether it was good (the
// reader has the refusal).
bool read_text_field(FieldReader& reader, std::string_view name, TextFields& out, bool& ok);

// A Status, and the member that it is about.
struct FieldError {
  base::Status status;
  std::string_view param;  // a literal
};

// The model's defaults with what the request says over them, into sampling, stop_ids, ignore_eos and min_tokens.
// Errors: INVALID_ARGUMENT where an id is not in the vocabulary.
FieldError place(const TextFields& fields, const msg::TextSpec& spec, msg::Generation& generation);

// The tokens that end the text: the stop ids, and the model's own end unless it is to be ignored.
std::vector<uint32_t> end_ids(const TextFields& fields, const msg::TextSpec& spec);

// Sets max_tokens, with the prompt in place: what was asked for, which must fit (OUT_OF_RANGE), or `usual`, as far as
// the context goes. Also OUT_OF_RANGE: a prompt that fills the context. INVALID_ARGUMENT: an empty prompt, ids that are
// not in the vocabulary, min_tokens above max_tokens.
FieldError place_length(const TextFields& fields, const msg::TextSpec& spec, uint32_t usual,
                        msg::Generation& generation);

}  // namespace weir::marshal
