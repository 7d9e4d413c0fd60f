#include "dialects/evergreen/session_input.h"

#include <algorithm>
#include <utility>

#include "dialects/evergreen/action.h"
#include "dialects/evergreen/schema.h"
#include "dialects/evergreen/session.h"

namespace weir::evergreen {

using base::Status;

void SessionInput::read(const base::Bytes& message) { read_from(message, 0); }

void SessionInput::read_from(const base::Bytes& message, size_t at) {
  reading_ = &message;
  Status s = read_message(message, at, *this);
  reading_ = nullptr;
  at_ = at;
  if (!s.ok()) session_.abort(std::move(s));
}

Status SessionInput::hold(Until until) {
  held_ = *reading_;
  until_ = until;
  used_ = session_.graph().memory().used();
  return {};
}

bool SessionInput::held_back() const {
  switch (until_) {
    case Until::kRoom: return session_.graph().memory().used() >= used_ && session_.ttls().make_room();
    case Until::kModel: return session_.actions().busy() && !session_.draining();
    case Until::kLoads: return loads_.many();
    case Until::kResumed: return session_.keeper().resuming();
    case Until::kNextTurn: return session_.state().turn_budget.spent();
  }
  return false;
}

bool SessionInput::go_on() {
  if (!holds() || held_back()) return false;
  base::Bytes message = std::exchange(held_, {});
  read_from(message, at_);
  return true;
}

// The data of a fragment that is a small part of its message is copied, so that it does not keep all of it in memory.
// That may take several turns; false: it is not finished, and goes on in the next turn.
bool SessionInput::copy(Fragment& f) {
  constexpr size_t kShort = 64 << 10, kCopiedPerStep = 512;  // bytes; fresh memory is slow
  TurnBudget& turn_budget = session_.state().turn_budget;
  NodeGraph& graph = session_.graph();
  if (!copy_) {
    if (!is_copied(f.data)) return true;
    if (f.data.size() <= kShort) {  // by the graph itself
      turn_budget.spend(f.data.size() / kCopiedPerStep);
      return true;
    }
    // Data that does not fit is not copied: add() refuses it.
    if (!graph.fits(f) || !graph.memory().take(f.data.size()).ok()) return true;
    copy_charge_ = graph.memory().share(f.data.size());
    copy_ = base::Block(base::heap_slab(f.data.size()));
  }
  do {
    const size_t more = std::min(kShort, f.data.size() - copy_.size());
    copy_.append(f.data.data() + copy_.size(), more);
    turn_budget.spend(1 + more / kCopiedPerStep);
  } while (copy_.size() < f.data.size() && !turn_budget.spent());
  if (copy_.size() < f.data.size()) return false;
  f.data = copy_.freeze();
  copy_charge_ = {};  // the graph charges it
  return true;
}

Status SessionInput::on_fragment(Fragment& f, std::string_view reference) {
  if (session_.over()) return base::failure(base::Code::kCancelled, "the session is over");
  TurnBudget& turn_budget = session_.state().turn_budget;
  NodeGraph& graph = session_.graph();
  if (session_.keeper().resuming()) return hold(Until::kResumed);
  if (turn_budget.spent()) return hold(Until::kNextTurn);
  turn_budget.spend(1 + f.children.size() + f.read_steps);
  // Nodes stay as long as the session. Only if some have a time to live can there be room later, so that waiting helps.
  if (!copy_ && session_.ttls().make_room() && (session_.ttls().short_of_room() || !graph.fits(f)))
    return hold(Until::kRoom);
  if (f.by_reference && loads_.full()) return hold(Until::kLoads);
  if (!make_children(graph, f) || !copy(f)) return hold(Until::kNextTurn);
  auto fate = graph.add(f);
  if (!fate) return fate.error();
  session_.keeper().note_change();
  if (*fate == NodeGraph::Fate::kDuplicate || !f.by_reference) return {};
  return loads_.begin(*graph.find(f.node), f.seq, reference);
}

Status SessionInput::on_action(ActionRequest&& request) {
  constexpr uint64_t kStepsPerAction = 16;  // beside what it visits
  if (session_.over()) return base::failure(base::Code::kCancelled, "the session is over");
  if (session_.draining()) return {};  // the session's end will say why
  if (session_.keeper().resuming()) return hold(Until::kResumed);
  TurnBudget& turn_budget = session_.state().turn_budget;
  if (turn_budget.spent()) return hold(Until::kNextTurn);
  turn_budget.spend(kStepsPerAction + request.read_steps);
  // Those that models work on end by themselves, so they are worth waiting for. Actions that wait for their inputs are
  // not: what they wait for may be behind this one. Their number is bounded by the bytes that they count as.
  const Schema* schema = find_schema(request.name);
  RunningActions& actions = session_.actions();
  if (actions.busy() && schema && schema->works != Schema::Works::kAtOnce) return hold(Until::kModel);
  const bool fits = session_.graph().memory().has_room_for(Action::size_of(request));
  const bool needs_room = session_.ttls().short_of_room() && !(schema && makes_room(*schema));
  if (session_.ttls().make_room() && (needs_room || !fits)) return hold(Until::kRoom);
  auto action = make_action(session_, std::move(request));
  session_.keeper().note_change();
  actions.begin(std::move(action));
  return {};
}

}  // namespace weir::evergreen
