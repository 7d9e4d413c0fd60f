#include "sched/rate_limiter.h"

#include <algorithm>

#include "base/check.h"

namespace weir::sched {
namespace {

std::string key_of(const ResourceNeed& need, std::string_view place) {
  return need.global ? need.name : need.name + ' ' + std::string(place);
}

std::string_view name_of(std::string_view key) { return key.substr(0, key.find(' ')); }

class RateLimitedEngine final : public Engine {
 public:
  RateLimitedEngine(std::unique_ptr<Engine> engine, std::unique_ptr<RateLimiter::Instance> instance)
      : engine_(std::move(engine)), instance_(std::move(instance)) {}

  const msg::ModelSpec& spec() const override { return engine_->spec(); }
  base::Status step(Batch& batch) override {
    struct Turn {
      explicit Turn(RateLimiter::Instance& instance) : instance_(instance) { instance_.acquire(); }
      ~Turn() { instance_.release(); }
      RateLimiter::Instance& instance_;
    } turn(*instance_);
    return engine_->step(batch);
  }
  base::SlabSource* staging() override { return engine_->staging(); }
  bool takes_rows(const msg::Tensor& rows) const override { return engine_->takes_rows(rows); }
  bool reads_calls() const override { return engine_->reads_calls(); }
  bool keeps_states() const override { return engine_->keeps_states(); }
  Health health() const override { return engine_->health(); }
  std::string_view place() const override { return engine_->place(); }

 private:
  const std::unique_ptr<Engine> engine_;
  const std::unique_ptr<RateLimiter::Instance> instance_;
};

}  // namespace

RateLimiter::Instance::Instance(std::shared_ptr<RateLimiter> limiter, const RateLimit& limit, std::string_view place)
    : limiter_(std::move(limiter)), stride_(std::max(1u, limit.priority)) {
  for (const auto& need : limit.resources)
    if (need.count > 0) needs_[key_of(need, place)] += need.count;
}

RateLimiter::Instance::~Instance() {
  std::lock_guard lock(limiter_->mutex_);
  base::check(!granted_, "an instance that goes has given its resources back");
  limiter_->instances_ -= size_t(joined_);
  for (const auto& [key, count] : needs_) {
    auto resource = limiter_->resources_.find(key);
    if (resource == limiter_->resources_.end()) continue;
    std::erase_if(resource->second.asked, [this](const auto& one) { return one.second == this; });
    if (resource->second.asked.empty()) limiter_->resources_.erase(resource);
  }
}

base::Result<std::unique_ptr<RateLimiter::Instance>> RateLimiter::join(std::shared_ptr<RateLimiter> limiter,
                                                                       const RateLimit& limit, std::string_view place) {
  std::unique_ptr<Instance> instance(new Instance(limiter, limit, place));
  for (const auto& [key, count] : instance->needs_) {
    auto there = limiter->counts_.find(name_of(key));
    if (there != limiter->counts_.end() && there->second < count)
      return base::failure(base::Code::kFailedPrecondition,
                           "an instance needs " + std::to_string(count) + " of resource '" + std::string(name_of(key)) +
                               "', and models.resources has " + std::to_string(there->second));
  }
  std::lock_guard lock(limiter->mutex_);
  for (const auto& [key, count] : instance->needs_) limiter->resources_[key].asked.emplace(count, instance.get());
  limiter->waiting_.reserve(limiter->instances_ + 1);
  ++limiter->instances_, instance->joined_ = true;
  return instance;
}

uint32_t RateLimiter::most(const std::string& key) const {
  if (auto set = counts_.find(name_of(key)); set != counts_.end()) return set->second;
  auto resource = resources_.find(key);
  return resource == resources_.end() ? 0 : resource->second.asked.rbegin()->first;
}

void RateLimiter::Instance::acquire() {
  std::unique_lock lock(limiter_->mutex_);
  pass_ = std::max(pass_, limiter_->pass_);  // who did nothing for a while has no turns saved up
  auto& waiting = limiter_->waiting_;
  const auto behind = std::upper_bound(waiting.begin(), waiting.end(), pass_,
                                       [](uint64_t pass, const Instance* other) { return pass < other->pass_; });
  waiting.insert(behind, this);
  limiter_->grant();
  turn_.wait(lock, [this] { return granted_; });
}

void RateLimiter::Instance::release() {
  std::lock_guard lock(limiter_->mutex_);
  granted_ = false;
  for (const auto& [key, count] : needs_) limiter_->resources_.at(key).taken -= count;
  limiter_->grant();
}

bool RateLimiter::is_free(const std::pair<const std::string, uint32_t>& need) const {
  const Resource& resource = resources_.find(need.first)->second;
  return resource.awaited != round_ && resource.taken + need.second <= most(need.first);
}

// Gives out what is free, in the order of turns. What one waits for is not given to those behind it. Nothing here
// allocates: release() must not throw, and what throws half-way would lose a turn.
void RateLimiter::grant() {
  ++round_;
  std::erase_if(waiting_, [&](Instance* instance) {
    const auto& needs = instance->needs_;
    if (!std::all_of(needs.begin(), needs.end(), [this](const auto& need) { return is_free(need); })) {
      for (const auto& need : needs) resources_.find(need.first)->second.awaited = round_;
      return false;
    }
    for (const auto& need : needs) resources_.find(need.first)->second.taken += need.second;
    pass_ = std::max(pass_, instance->pass_);
    instance->pass_ += instance->stride_;
    instance->granted_ = true;
    instance->turn_.notify_one();
    return true;
  });
}

size_t RateLimiter::waiting() const {
  std::lock_guard lock(mutex_);
  return waiting_.size();
}

std::map<std::string, std::pair<uint32_t, uint32_t>> RateLimiter::used() const {
  std::lock_guard lock(mutex_);
  std::map<std::string, std::pair<uint32_t, uint32_t>> out;
  for (const auto& [key, resource] : resources_) out[key] = {resource.taken, most(key)};
  return out;
}

std::unique_ptr<Engine> make_rate_limited(std::unique_ptr<Engine> engine,
                                          std::unique_ptr<RateLimiter::Instance> instance) {
  return std::make_unique<RateLimitedEngine>(std::move(engine), std::move(instance));
}

}  // namespace weir::sched
