#include "models/demand.h"

#include <algorithm>
#include <tuple>

namespace weir::models {

Demand::Demand(const RepositoryOptions& options, ModelTable& table, std::shared_ptr<TaskQueue> queue, Hooks hooks)
    : options_(options),
      residence_(options.control != Control::kDemand
                     ? nullptr
                     : std::make_unique<Residence>(
                           table, [this](const auto& loaded) { return stand_in(loaded); }, options.memory)),
      queue_(std::move(queue)),
      hooks_(std::move(hooks)) {}

// The queue refuses what is posted when the Repository ends, so `this` is there when the task runs.
std::shared_ptr<bus::Served> Demand::stand_in(const bus::Served& loaded) {
  auto served = std::make_shared<bus::Served>();
  served->spec = loaded.spec;
  served->stats.places = loaded.stats.places;
  auto ask = [this, queue = queue_, model = loaded.spec.name] { return queue->post([this, model] { want(model); }); };
  served->inbox = std::make_unique<sched::DemandInbox>(served->spec.name, options_.waiting, served->stats, timer_, ask);
  return served;
}

void Demand::want(const std::string& model) {
  if (std::find(wanted_.begin(), wanted_.end(), model) == wanted_.end()) wanted_.push_back(model);
}

void Demand::want(const std::string& model, Done done) {
  want(model);
  asked_.emplace(model, std::move(done));
}

void Demand::notify(const std::string& model, const base::Status& outcome) {
  auto [from, to] = asked_.equal_range(model);
  for (auto at = from; at != to; ++at) at->second(outcome);
  asked_.erase(from, to);
}

void Demand::step() {
  if (on()) residence_->settle();
  while (!wanted_.empty() && !loading_) {
    const std::string model = wanted_.front();
    if (residence_->is_missing(model)) {
      const Room room = make_room(residence_->missing_bytes(model));
      if (room == Room::kSoon || !residence_->is_settled(model)) return;
      if (room == Room::kNow) return begin(model);
      if (room == Room::kNever)
        fail(model,
             "models that cannot leave memory take " + std::to_string(residence_->bytes()) + " bytes of models.memory");
    }
    notify(model, {});  // where it has failed nobody is left to be told
    wanted_.pop_front();
  }
}

void Demand::end() {
  const auto why = base::try_again(base::Code::kUnavailable, "the server is shutting down");
  for (const auto& model : wanted_) {
    residence_->fail_waiting(model, why, base::Time::max());
    notify(model, why);
  }
}

Demand::Room Demand::make_room(uint64_t bytes) {
  if (options_.memory == 0) return Room::kNow;
  bytes += coming_;
  while (residence_->bytes() + bytes > options_.memory)
    if (!let_one_go()) return Room::kNever;
  return residence_->bytes() + residence_->leaving_bytes() + bytes <= options_.memory ? Room::kNow : Room::kSoon;
}

// The one that was used longest ago, of those that do nothing; of all, where none does nothing: its Calls end first.
// One that is being loaded anew goes where there is no other: that load would be in vain.
bool Demand::let_one_go() {
  auto residents = residence_->residents();
  std::erase_if(residents, [](const auto& r) { return r.bytes == 0; });
  auto rank = [&](const auto& r) { return std::tuple(r.busy, hooks_.is_being_loaded(r.model), r.last_used_ms); };
  auto first = std::min_element(residents.begin(), residents.end(),
                                [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  if (first == residents.end()) return false;
  residence_->let_go(first->model);
  hooks_.publish();
  return true;
}

void Demand::begin(const std::string& model) {
  loading_ = true, coming_ = residence_->missing_bytes(model);
  residence_->mark_missing(model, bus::ModelState::kReady, "it is being loaded, as a request asks for it");
  hooks_.publish();
  hooks_.load(model, [this, model](const base::Status& outcome) { end(model, outcome); });
}

void Demand::end(const std::string& model, const base::Status& outcome) {
  loading_ = false, coming_ = 0;
  if (outcome.ok())
    hooks_.publish();
  else
    fail(model, outcome.text);
  notify(model, {});  // where it has failed nobody is left to be told
  std::erase(wanted_, model);
}

// In terms of a client nothing is wrong with its request, whatever is wrong with the model.
void Demand::fail(const std::string& model, const std::string& why) {
  residence_->mark_missing(model, bus::ModelState::kUnavailable, why + "; a request tries again");
  hooks_.publish();
  residence_->fail_waiting(model,
                           base::try_again(base::Code::kUnavailable, "model '" + model + "' cannot be loaded: " + why),
                           timer_->now() + kQuiet);
  notify(model, base::failure(base::Code::kFailedPrecondition, why));
}

}  // namespace weir::models
