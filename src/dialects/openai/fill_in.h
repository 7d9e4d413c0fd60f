// Filling in: a model writes what stands between two texts, where its vocabulary has tokens for that.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dialects/openai/prompt.h"

namespace weir::openai {

// The prompt of a completion with a suffix. Errors: 400, the model has no such tokens.
ApiError fill_in(std::string_view prefix, std::string_view suffix, const msg::TextSpec& spec, std::string& out);

// The tokens with which models for filling in say that they are through, beside their own end: what follows would be
// another file.
void add_fill_ends(const msg::TextSpec& spec, std::vector<uint32_t>& ids);

// The prompt of llama.cpp's /infill, with Request::infill around it. Where it does not fit beside `room` tokens of an
// answer, the first of what stands beside the file go, then the ends of the file that are far from the place. Errors:
// as of make_prompt().
ApiError make_infill(const Prompt& prefix, const Request& request, const msg::TextSpec& spec, uint32_t room,
                     Sequence& out, const msg::TextBudget& budget);

}  // namespace weir::openai
