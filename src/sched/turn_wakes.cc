#include "sched/turn_wakes.h"

namespace weir::sched {
namespace {

thread_local TurnWakes* wakes_of_this_thread = nullptr;

}  // namespace

TurnWakes::~TurnWakes() {
  if (wakes_of_this_thread == this) wakes_of_this_thread = nullptr;
}

void TurnWakes::use() { wakes_of_this_thread = this; }

TurnWakes* TurnWakes::of_this_thread() { return wakes_of_this_thread; }

// wake() adds nothing.
void TurnWakes::flush() {
  for (auto* sleeper : sleepers_) sleeper->wake();
  sleepers_.clear();
}

}  // namespace weir::sched
