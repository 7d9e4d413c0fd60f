// The times of an answer as llama.cpp's server tells them: `timings` and `prompt_progress`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.h"
#include "wire/exchange.h"

namespace weir::openai::llama_cpp {

using Member = std::pair<std::string_view, std::string>;  // name, JSON

// The tokens of one choice, or of all.
struct TokenFigures {
  uint64_t prompt = 0, cached = 0;  // of the prompt, and of those what was there already
  uint64_t completion = 0;
  base::Time first = base::kNever;  // when the first token of the completion came
};

// The prompt's part is that which was not cached; it lasts until the first token.
std::vector<Member> timings_of(const wire::Exchange& exchange, const TokenFigures& figures);
// `,"timings":{…}`
void write_timings(std::string& out, const wire::Exchange& exchange, const TokenFigures& figures);
// `,"prompt_progress":{"total","cache","processed","time_ms"}` of a prompt that is through: the engine tells no more of
// it.
void write_progress(std::string& out, const wire::Exchange& exchange, const TokenFigures& figures);

}  // namespace weir::openai::llama_cpp
