#include "dialects/openai/responses/continuations.h"

#include <algorithm>
#include <utility>

#include "dialects/openai/responses/responses.h"
#include "dialects/openai/responses/stored.h"

namespace weir::openai::responses {

void Continuations::keep(const std::string& id, std::string turns) {
  StoredResponse stored;
  stored.kind = StoredKind::kConnection;
  stored.turns = base::Bytes::adopt(std::move(turns));
  if (!state_.options.stored || !keep_here(state_, tenant_, id, std::move(stored))) return;
  ids_.push_back(id);
  if (ids_.size() <= kMost) return;
  remove(ids_.front());
  ids_.pop_front();
}

void Continuations::forget(std::string_view id) {
  const auto found = std::find(ids_.begin(), ids_.end(), id);
  if (found == ids_.end()) return;
  remove(*found);
  ids_.erase(found);
}

void Continuations::forget_all() {
  for (const std::string& id : ids_) remove(id);
  ids_.clear();
}

void Continuations::remove(const std::string& id) {
  state_.options.stored->remove(tenant_, id, state_.bus.env().now(), StoredKind::kConnection);
}

}  // namespace weir::openai::responses
