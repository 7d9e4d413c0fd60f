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

// The part of a list that a request asks for.
struct Page {
  size_t limit = 0;
  jobs::ListOrder order = jobs::ListOrder::kNewestFirst;
  std::string after;  // an id; empty: from the beginning
};
// Reads `limit`, `order` and `after` from the query; `usual` is the order if it names none. Returns nothing if one of
// them is invalid: then the request has been answered.
std::optional<Page> read_page(wire::Exchange& exchange, jobs::ListOrder usual);

using Objects = std::vector<std::pair<std::string, std::string>>;  // ids and JSON, the oldest first
struct JsonOrError {
  ApiError error;
  std::string json;
};
// Makes one page of a list. Any thread. Errors: 400 where no object has the id `page.after`.
JsonOrError make_page(Objects objects, const Page& page);

// Answers with the JSON that `make` returns. It runs on the shard if it is as little work as to read kLongBody bytes,
// else on a worker: it must own all that it uses.
void answer_json(OpenAiState& state, wire::Exchange& exchange, size_t work, std::function<JsonOrError()> make);

}  // namespace weir::openai::responses
