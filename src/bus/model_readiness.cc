#include "bus/model_readiness.h"

#include <mutex>
#include <utility>

namespace weir::bus {

// The way of answers to this shard, which may be gone before they come.
struct ModelReadiness::Door {
  std::mutex mutex;
  Post post;                         // under mutex; null: the shard is gone
  ModelReadiness* inside = nullptr;  // of the shard's thread
};

ModelReadiness::ModelReadiness(base::Env& env, Post post) : env_(env), door_(std::make_shared<Door>()) {
  door_->post = std::move(post);
  door_->inside = this;
}

ModelReadiness::~ModelReadiness() {
  for (const auto& [number, waiting] : waiting_) env_.cancel(waiting.timer);
  door_->inside = nullptr;
  std::lock_guard lock(door_->mutex);
  door_->post = nullptr;
}

std::optional<uint64_t> ModelReadiness::ask(const std::shared_ptr<msg::ReadinessProbe>& probe, Done done) {
  Asked& asked = asked_[probe.get()];
  if (asked.waiting.size() >= kMostWaiting) return std::nullopt;
  const uint64_t number = ++last_;
  const auto timer = env_.at(env_.now() + kPatience, [this, number] { overdue(number); });
  asked.waiting.insert(number);
  waiting_.emplace(number, Waiting{probe.get(), std::move(done), timer});
  if (std::exchange(asked.probe, probe)) return number;  // its answer is awaited already
  probe->ask([door = door_, of = probe.get()](std::string why_not) {
    std::lock_guard lock(door->mutex);
    if (!door->post) return;
    door->post([door, of, why_not = std::move(why_not)] {
      if (door->inside) door->inside->answered(of, why_not);
    });
  });
  return number;
}

// The question goes on: nothing but its answer ends it.
void ModelReadiness::leave(const Waiting& waiting, uint64_t number) {
  env_.cancel(waiting.timer);
  if (auto asked = asked_.find(waiting.probe); asked != asked_.end()) asked->second.waiting.erase(number);
}

void ModelReadiness::forget(uint64_t number) {
  auto node = waiting_.extract(number);
  if (!node.empty()) leave(node.mapped(), number);
}

void ModelReadiness::answered(const msg::ReadinessProbe* probe, const std::string& why_not) {
  auto node = asked_.extract(probe);
  if (node.empty()) return;
  const base::Time now = env_.now();
  std::erase_if(said_, [now](const auto& said) { return now - said.second.when > kMostBusy; });
  said_.insert_or_assign(probe, Said{node.mapped().probe, why_not, now});
  for (const uint64_t number : node.mapped().waiting) tell(number, why_not);
}

const std::string* ModelReadiness::last_answer(const std::shared_ptr<msg::ReadinessProbe>& probe) const {
  const auto said = said_.find(probe.get());
  if (said == said_.end() || said->second.probe.lock() != probe) return nullptr;
  return env_.now() - said->second.when > kPatience ? nullptr : &said->second.why_not;
}

void ModelReadiness::overdue(uint64_t number) {
  std::string why_not = "it did not answer within 5 s";
  if (const auto asked = asked_.find(waiting_.at(number).probe); asked != asked_.end() && asked->second.probe->busy()) {
    const auto said = said_.find(asked->first);
    const bool recent = said != said_.end() && env_.now() - said->second.when <= kMostBusy;
    if (recent && said->second.probe.lock() == asked->second.probe) why_not = said->second.why_not;
  }
  tell(number, why_not);
}

// The one that is told may ask again.
void ModelReadiness::tell(uint64_t number, const std::string& why_not) {
  auto node = waiting_.extract(number);
  if (node.empty()) return;
  leave(node.mapped(), number);
  node.mapped().done(why_not);
}

}  // namespace weir::bus
