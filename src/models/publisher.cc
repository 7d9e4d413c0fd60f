#include "models/publisher.h"

#include <algorithm>

namespace weir::models {

uint64_t Publisher::settled() const {
  std::lock_guard lock(queue_->mutex);
  return queue_->settled;
}

void Publisher::publish() {
  uint64_t epoch = ++published_;
  for (auto& retired : table_.take_retired()) leaving_.push_back({epoch, std::move(retired)});
  if (has_retired()) queue_->poke();  // its thread is to look when it is unused
  publish_(table_.catalog(default_model_), [queue = queue_, epoch] {
    std::lock_guard lock(queue->mutex);
    queue->settled = std::max(queue->settled, epoch);
    queue->changed.notify_one();
  });
}

std::vector<std::function<void()>> Publisher::take_settled() {
  const uint64_t now = settled();
  std::vector<std::function<void()>> out;
  for (auto& waiting : waiting_)
    if (waiting.epoch <= now) out.push_back(std::move(waiting.done));
  std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.epoch <= now; });
  return out;
}

std::vector<std::function<void()>> Publisher::take_all() {
  std::vector<std::function<void()>> out;
  for (auto& waiting : std::exchange(waiting_, {})) out.push_back(std::move(waiting.done));
  return out;
}

std::vector<Retired> Publisher::take_unused() {
  const uint64_t now = settled();
  std::vector<Retired> out;
  for (auto at = leaving_.begin(); at != leaving_.end();) {
    auto& what = at->what;
    if (at->epoch > now || what.served.use_count() > 1 || !what.served->idle()) {
      ++at;
      continue;
    }
    being_destroyed_.emplace(what.model, what.version);
    out.push_back(std::move(what));
    at = leaving_.erase(at);
  }
  return out;
}

void Publisher::destroyed(const Retired& what) {
  being_destroyed_.erase(being_destroyed_.find({what.model, what.version}));
  const bool more = has_retired_if(
      [&](const std::string& model, uint64_t version) { return model == what.model && version == what.version; });
  table_.destroyed(what, more ? ModelTable::Left::kSome : ModelTable::Left::kNone);
}

bool Publisher::has_retired(const std::string& model) const {
  return has_retired_if([&](const std::string& other, uint64_t) { return other == model; });
}

bool Publisher::has_retired_if(const std::function<bool(const std::string&, uint64_t)>& is) const {
  return std::any_of(being_destroyed_.begin(), being_destroyed_.end(),
                     [&](const auto& each) { return is(each.first, each.second); }) ||
         std::any_of(leaving_.begin(), leaving_.end(),
                     [&](const auto& leaving) { return is(leaving.what.model, leaving.what.version); });
}

}  // namespace weir::models
