#include "dialects/evergreen/running_actions.h"

#include <algorithm>
#include <utility>

#include "dialects/evergreen/action.h"
#include "dialects/evergreen/session.h"

namespace weir::evergreen {

RunningActions::RunningActions(Session& session) : session_(session) {}
RunningActions::~RunningActions() = default;

void RunningActions::begin(std::unique_ptr<Action> action) {
  actions_.push_back(std::move(action));
  actions_.back()->start();
  if (!actions_.empty() && actions_.back()->over())
    actions_.pop_back();  // else the actions of one message would all stay until go_on()
}

bool RunningActions::go_on() {
  if (std::exchange(sweep_, false))
    std::erase_if(actions_, [](const auto& a) { return a->over(); });
  else if (std::exchange(slot_free_, false))
    begin_next();
  else if (resume_ && !session_.state().turn_budget.spent())
    resume_ = false, run_all();
  else
    return false;
  return true;
}

// Visiting all actions takes steps of the turn's budget.
void RunningActions::spend_visits() {
  constexpr uint64_t kActionsPerStep = 16;
  session_.state().turn_budget.spend(1 + actions_.size() / kActionsPerStep);
}

// An action may end in its run(); it stays in the list until go_on() removes it.
void RunningActions::run_all() {
  spend_visits();
  for (size_t i = 0; i < actions_.size() && !session_.over(); ++i) actions_[i]->run();
}

// Runs the actions that wait for a model, in order of arrival. The others have nothing new to do.
void RunningActions::begin_next() {
  spend_visits();
  for (size_t i = 0; i < actions_.size() && !session_.over() && !busy(); ++i)
    if (actions_[i]->wants_turn()) actions_[i]->run();
}

void RunningActions::clear() { actions_.clear(); }

Action* RunningActions::writer(const Node& node) {
  spend_visits();
  for (const auto& action : actions_)
    if (!action->over() && action->writes(node)) return action.get();
  return nullptr;
}

bool RunningActions::all_wait(std::string& missing) const {
  return std::all_of(actions_.begin(), actions_.end(), [&](const auto& a) { return a->waits(missing); });
}

void RunningActions::on_action_over() {
  sweep_ = true;
  session_.keeper().note_action_over();
}

bool RunningActions::busy() const { return working_ >= session_.state().options.max_actions; }

void RunningActions::on_work_ended() {
  slot_free_ = slot_free_ || busy();
  --working_;
}

}  // namespace weir::evergreen
