// TextRequest: what a tensor Call asks of a text model: `text_input` and parameters, as Triton's generate extension has
// them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::llm {

struct TextRequest {
  std::string prompt;
  msg::Generation generation;  // without `append`
  std::vector<std::string> stops;
  std::vector<uint32_t> end_ids;                    // of the model, and those of the request
  std::optional<msg::StructuredOutput> structured;  // the form of the text
  bool stream = false;                              // one Outputs per piece of text, then a last one
  bool skip_special = true, include_stop = false;
  bool with_prompt = false;  // the prompt comes in front of the answer (exclude_input_in_output = false)
};

// The inputs that such a Call may have.
std::vector<msg::TensorSpec> text_inputs();

// From inputs and parameters (marshal/generation_params.h, as Triton's clients call them; numbers may be text). A
// parameter that would change the answer and is not known here is refused, others are ignored. Errors: INVALID_ARGUMENT
// naming the field, UNIMPLEMENTED.
base::Result<TextRequest> read_text_request(const msg::Call& call, const msg::TextSpec& text);

}  // namespace weir::llm
