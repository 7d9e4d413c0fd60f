// RunningActions: the actions of a session, from the request to their end, in order of arrival. Models work on as many
// of them at once as Options::max_actions says; the others wait.
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
  // Does one thing that is due: actions that are over go, those that waited for a model begin, or all go on. False:
  // nothing is due in this turn.
  bool go_on();
  // All are to go on: outputs that paused for want of room, or for the client, may.
  void resume() { resume_ = true; }
  bool due() const { return resume_; }
  void clear();
  bool empty() const { return actions_.empty(); }
  // The one that writes that node, or null.
  Action* maker(const Node& node);
  // Each of them waits for something from outside: fills in what.
  bool all_wait(std::string& missing) const;

  // Models work on as many actions as they may. go_on() begins others when one of them has ended.
  bool busy() const;
  void on_work_begun() { ++working_; }
  void on_work_ended();
  void on_action_over() { sweep_ = true; }

 private:
  void run_all();
  void begin_next();
  void spend_visits();

  Session& session_;
  uint32_t working_ = 0;    // actions that models work on
  bool turn_came_ = false;  // for actions that wait to be among those
  bool sweep_ = false;      // an action is over
  bool resume_ = false;
  std::vector<std::unique_ptr<Action>> actions_;  // when they go, they tell of their work's end
};

}  // namespace weir::evergreen
