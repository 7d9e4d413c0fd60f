// Finds items of stored responses by their ids, and lists them. Any thread.
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
// Returns the id of the response that the item is in; empty: `item_id` is not the id of an item.
std::string response_of(std::string_view item_id);

// The responses (JSON) that references of a body need, by their ids; empty text: there is no such response.
using Referenced = std::map<std::string, base::Bytes>;
inline constexpr size_t kMostReferenced = 256;                    // responses
inline constexpr size_t kMostReferencedBytes = size_t(16) << 20;  // of items, and of the responses

// Finds items in the outputs of `responses`, which are borrowed.
class ReferencedItems {
 public:
  explicit ReferencedItems(const Referenced& responses) : responses_(responses) {}
  // Returns nothing if there is no such item, or if all that were found are longer than kMostReferencedBytes together.
  std::optional<OrderedJson> find(const std::string& id);

 private:
  using Items = std::map<std::string, std::string_view, std::less<>>;  // JSON, by id
  const Items& items_of(const std::string& response_id, std::string_view response);

  const Referenced& responses_;
  std::map<std::string, Items> items_;
  size_t bytes_ = 0;
};

// Returns the input items of a stored response, each with its id: they are made from its turns, without its own answer.
// Calls get the names and kinds of the response's tools.
std::vector<std::pair<std::string, std::string>> input_items(std::string_view response_id, std::string_view turns,
                                                             std::string_view response);

}  // namespace weir::openai::responses
