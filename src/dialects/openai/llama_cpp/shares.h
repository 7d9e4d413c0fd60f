// The probabilities by which a token was drawn (`post_sampling_probs`), as far as the likeliest tokens tell them: the
// engine tells those that the model gave. What top_k keeps is among them, and temperature, top_p and min_p change it in
// the engines' order (msg::Sampling).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dialects/openai/api_error.h"
#include "msg/generate.h"

namespace weir::openai::llama_cpp {

// Asks for as many of the likeliest tokens as must be known. Errors: 400, they do not tell the probabilities: other
// things than those change what is drawn from, or all tokens may be drawn.
ApiError ask_for_shares(msg::Generation& generation);

// The probability of each of these tokens, the likeliest first; 0: it could not be drawn, or its logprob is no number.
std::vector<float> final_shares(const msg::Sampling& sampling, std::span<const msg::TokenLogprob> top);

}  // namespace weir::openai::llama_cpp
