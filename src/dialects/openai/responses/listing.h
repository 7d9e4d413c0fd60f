// Pages of lists of what is stored: items, messages.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dialects/openai/endpoints.h"
#include "jobs/journal.h"

namespace weir::openai::responses {

// Which objects of a list are asked for.
struct Page {
  size_t limit = 0;
  jobs::FileOrder order = jobs::FileOrder::kNewestFirst;
  std::string after;  // an id; empty: from the beginning
};
// Reads `limit`, `order` and `after`; nothing, and the request is answered, where they are something else.
std::optional<Page> read_page(wire::Exchange& exchange, jobs::FileOrder usual);

using Objects = std::vector<std::pair<std::string, std::string>>;  // ids and JSON, the oldest first
struct Made {
  ApiError error;
  std::string json;
};
// Any thread. Errors: 400 where no object has the id `page.after`.
Made make_page(Objects objects, const Page& page);

// Answers with what `make` makes of `bytes` of text: here where they are few, else a worker runs it. What it needs is
// its own.
void answer_made(OpenAiState& state, wire::Exchange& exchange, size_t bytes, std::function<Made()> make);

}  // namespace weir::openai::responses
