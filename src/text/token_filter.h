// TokenFilter: the tokens that a request lets its completions have (`allowed_token_ids`), and the words that it keeps
// out of them (`bad_words`), whatever form they have beside that.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "msg/token_constraint.h"

namespace weir::text {

// Immutable once it is filled; any thread.
struct TokenFilter {
  // Words of 32 ids, as in TokenConstraint::mask(): the tokens that may come.
  std::vector<uint32_t> allowed;
  // Words as their tokens, none of them empty: the last does not come where the others have just been generated.
  std::vector<std::vector<uint32_t>> banned;
};

// The mask of `ids`, all below `vocabulary`; where there are none, of the whole vocabulary.
std::vector<uint32_t> token_mask(std::span<const uint32_t> ids, uint32_t vocabulary);

// One completion that fits both. `form` may be null. It has no form() to tell another server.
std::unique_ptr<msg::TokenConstraint> start_filter(std::shared_ptr<const TokenFilter> filter,
                                                   std::unique_ptr<msg::TokenConstraint> form);

}  // namespace weir::text
