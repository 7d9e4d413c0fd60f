// RunningActions: the actions of a session that have begun and are not over, in order of arrival. Models work on at
// most Options::max_actions of them at once; the others wait.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dialects/evergreen/graph/node.h"

namespace weir::evergreen {

class Action;
class Session;

class RunningActions {
 public:
  explicit RunningActions(Session& session);
  ~RunningActions();
  RunningActions(const RunningActions&) = delete;

  void begin(std::unique_ptr<Action> action);
  // Does one thing that is due: destroys actions that are over, begins those that waited for a model, or continues all.
  // False: nothing is due in this turn.
  bool go_on();
  // Makes go_on() continue all actions: outputs that paused for memory or for the client may have room now.
  void resume() { resume_ = true; }
  bool due() const { return resume_; }
  void clear();
  bool empty() const { return actions_.empty(); }
  // The action that writes that node, or null.
  Action* writer(const Node& node);
  // True if every action waits for an input; `missing` names one such node.
  bool all_wait(std::string& missing) const;

  // True if models work on max_actions actions. When one of these has ended, go_on() begins others.
  bool busy() const;
  void on_work_begun() { ++working_; }
  void on_work_ended();
  void on_action_over();

 private:
  void run_all();
  void begin_next();
  void spend_visits();

  Session& session_;
  uint32_t working_ = 0;    // actions that models work on
  bool slot_free_ = false;  // models may work on one more action than before
  bool sweep_ = false;      // an action is over
  bool resume_ = false;
  std::vector<std::unique_ptr<Action>> actions_;  // last: their destructors call on_work_ended()
};

}  // namespace weir::evergreen
