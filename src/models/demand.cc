#include "models/demand.h"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>
#include <vector>

namespace weir::models {
namespace {

using Waiting = std::map<std::string, std::set<std::string>>;  // by model: those that wait for it

// A model that waits for a pipeline waits for each of its nodes.
void add_wait(const ModelTable& table, const std::string& waiter, const std::string& model, Waiting& out) {
  if (!out[model].insert(waiter).second) return;
  for (const auto& node : table.nodes(model)) add_wait(table, waiter, node, out);
}

void add_all(const Waiting& direct, const std::string& model, std::set<std::string>& out) {
  auto found = direct.find(model);
  if (found == direct.end()) return;
  for (const auto& waiter : found->second)
    if (out.insert(waiter).second) add_all(direct, waiter, out);
}

base::Status not_loaded(const std::string& model, const std::string& why,
                        base::Duration after = std::chrono::seconds(1)) {
  return base::try_again(base::Code::kUnavailable, "model '" + model + "' cannot be loaded: " + why,
                         std::chrono::ceil<std::chrono::seconds>(after));
}

}  // namespace

Demand::Demand(const RepositoryOptions& options, ModelTable& table, std::shared_ptr<TaskQueue> queue, Hooks hooks)
    : options_(options),
      table_(table),
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

void Demand::want(const std::string& model, Asks who, Done done) {
  want(model);
  asked_.emplace(model, Asked{who, std::move(done)});
}

void Demand::notify(const std::string& model, const base::Status& outcome) {
  auto [from, to] = asked_.equal_range(model);
  for (auto at = from; at != to; ++at) at->second.done(outcome);
  asked_.erase(from, to);
}

void Demand::forget(const std::string& model) {
  std::erase(wanted_, model);
  for_clients_.erase(model);
}

void Demand::step() {
  if (!on()) return;
  residence_->settle();
  for (const auto& model : Names(for_clients_))
    if (residence_->is_missing(model)) refuse_models(model);
  while (!loading_ && begin_next()) {
  }
}

// False: nothing can be done now. Those that are wanted wait for each other as long as something leaves memory by
// itself. Where nothing does, what has not ended in there waits for one of them.
bool Demand::begin_next() {
  note_waiting();
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const std::string model = wanted_[i];
    const bool missing = residence_->is_missing(model);
    const Room room = missing ? make_room(residence_->missing_bytes(model), waiting_[model]) : Room::kNow;
    if (missing && room == Room::kNow && residence_->is_settled(model)) return begin(model), true;
    if (missing && room == Room::kNever && !waiting_[model].empty()) return refuse_models(model), true;
    if (missing && room == Room::kNever) refuse(model);
    if (!missing || room == Room::kNever) {
      notify(model, {});  // where it is refused nobody is left to be told
      forget(model);
      return true;
    }
    if (any_leaves()) return false;
  }
  return refuse_one();
}

// Where models wait for each other's room, the first is refused what it waits for.
bool Demand::refuse_one() {
  auto first =
      std::find_if(wanted_.begin(), wanted_.end(), [&](const auto& model) { return !waiting_[model].empty(); });
  if (first == wanted_.end()) return false;
  refuse_models(std::string(*first));
  return true;
}

void Demand::note_waiting() {
  Waiting direct;
  if (!wanted_.empty())
    for (const auto& [waiter, model] : options_.waits.now()) add_wait(table_, waiter, model, direct);
  waiting_.clear(), held_.clear();
  for (const auto& model : wanted_) {
    if (for_clients_.contains(model)) continue;
    add_all(direct, model, waiting_[model]);
    held_.insert(waiting_[model].begin(), waiting_[model].end());
  }
}

void Demand::end() {
  const auto why = base::try_again(base::Code::kUnavailable, "the server is shutting down");
  for (const auto& model : wanted_) {
    residence_->fail_waiting(model, why, base::Time::max());
    notify(model, why);
  }
}

bool Demand::trim() {
  note_waiting();
  return make_room(0, {}) != Room::kNever;
}

// `waiting`: those that wait for what is to come.
Demand::Room Demand::make_room(uint64_t bytes, const Names& waiting) {
  if (options_.memory == 0) return Room::kNow;
  bytes += coming_;
  uint64_t leaving = 0, theirs = 0;  // the second does not go before that has come
  for (const auto& [model, part] : residence_->leaving_bytes()) (waiting.contains(model) ? theirs : leaving) += part;
  if (staying_bytes(waiting) + theirs + bytes > options_.memory) return Room::kNever;
  const uint64_t before = residence_->bytes();
  while (residence_->bytes() + theirs + bytes > options_.memory)
    if (!let_one_go()) return Room::kSoon;
  return before + leaving + theirs + bytes <= options_.memory ? Room::kNow : Room::kSoon;
}

// Counts models in memory that cannot leave it, or not before those have what they wait for.
uint64_t Demand::staying_bytes(const Names& waiting) const {
  uint64_t bytes = residence_->bytes();
  for (const auto& resident : residence_->residents())
    if (!waiting.contains(resident.model)) bytes -= resident.bytes;
  return bytes;
}

// Something is on its way out of memory whose Calls end by themselves.
bool Demand::any_leaves() const {
  const auto& leaving = residence_->leaving_bytes();
  return std::any_of(leaving.begin(), leaving.end(), [&](const auto& model) { return !held_.contains(model.first); });
}

// The one that was used longest ago, of those that do nothing; of all, where none does nothing: its Calls end first.
// One that is being loaded anew goes where there is no other: that load would be in vain.
bool Demand::let_one_go() {
  auto residents = residence_->residents();
  std::erase_if(residents, [&](const auto& r) { return r.bytes == 0 || held_.contains(r.model); });
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
  forget(model);
}

// In terms of a client nothing is wrong with its request, whatever is wrong with the model.
void Demand::fail(const std::string& model, const std::string& why) {
  residence_->mark_missing(model, bus::ModelState::kUnavailable, why + "; a request tries again");
  hooks_.publish();
  residence_->fail_waiting(model, not_loaded(model, why, kQuiet), timer_->now() + kQuiet);
  notify(model, base::failure(base::Code::kFailedPrecondition, why));
}

void Demand::refuse(const std::string& model) {
  fail(model, "models that cannot leave memory take " + std::to_string(staying_bytes({})) + " bytes of models.memory");
}

// There is no room beside the models that wait for it: they are refused. Where clients wait for it, too, these models
// leave for it, and are refused again until it is loaded. Where none waits any more it is not wanted any more, and the
// next Call of either must ask again.
void Demand::refuse_models(const std::string& model) {
  constexpr auto kWhy = "models.memory has no room for it beside the models that wait for it";
  std::vector<Done> refused;
  for (auto [at, to] = asked_.equal_range(model); at != to;) {
    if (at->second.who == Asks::kClient) {
      ++at;
    } else {
      refused.push_back(std::move(at->second.done));
      at = asked_.erase(at);
    }
  }
  if (asked_.contains(model) || residence_->clients_wait(model)) {
    residence_->refuse_models(model, not_loaded(model, kWhy), base::Time::max());
    for_clients_.insert(model);
  } else {
    residence_->fail_waiting(model, not_loaded(model, kWhy), timer_->now());
    forget(model);
  }
  for (const auto& done : refused) done(base::failure(base::Code::kFailedPrecondition, kWhy));
}

}  // namespace weir::models
