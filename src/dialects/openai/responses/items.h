// Items of stored responses: found by their ids, and listed. Any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "dialects/openai/translation.h"

namespace weir::openai::responses {

// An item's id leads to its response: behind its prefix (msg_, fc_, …) are the digits of the response's id, then the
// item's number.
inline constexpr size_t kIdDigits = 24;
std::string item_id(std::string_view prefix, std::string_view response_id, size_t number);
// The id of the response that the item is in; empty: it is no id of an item.
std::string response_of(std::string_view item_id);

// The responses that references of a body lead to, by their ids, as JSON. Empty: there is none.
using Referenced = std::map<std::string, base::Bytes>;
inline constexpr size_t kMostReferenced = 256;                    // responses
inline constexpr size_t kMostReferencedBytes = size_t(16) << 20;  // of items, and of the responses

// Finds items in the output of `responses`, which outlive it.
class ReferencedItems {
 public:
  explicit ReferencedItems(const Referenced& responses) : responses_(responses) {}
  // Nothing: there is none, or together they are longer than kMostReferencedBytes.
  std::optional<OrderedJson> find(const std::string& id);

 private:
  using Items = std::map<std::string, std::string_view, std::less<>>;  // JSON, by id
  const Items& items_of(const std::string& response_id, std::string_view response);

  const Referenced& responses_;
  std::map<std::string, Items> items_;
  size_t bytes_ = 0;
};

// The turns of a stored response without its own answer, as the items of its input, each with its id. Calls have the
// names and the kinds of the response's tools.
std::vector<std::pair<std::string, std::string>> input_items(std::string_view response_id, std::string_view turns,
                                                             std::string_view response);

}  // namespace weir::openai::responses
