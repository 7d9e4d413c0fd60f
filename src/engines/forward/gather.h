// Gather: Calls of one row each that come together go to an origin as one request. Those of one request of a client do:
// a dialect puts a Call for each text. Others join where tenant, trace and what is asked for are the same.
//
// The Calls that are put within one turn of the loop wait for the next one. Then a Call of all their rows goes where
// each of them would have gone, and its answer comes back in slices. Where an origin refuses such a request for what is
// in it, each of its Calls goes alone: nobody fails for the text of another. Where an origin fails of it (a complete
// answer of HTTP 500), it goes again in halves, until what fails is one text; in the long run that makes a fifth as
// many requests as there are Calls. On one shard's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/env.h"
#include "engines/forward/openai/text_rows.h"
#include "engines/forward/shard_model.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::forward {

class Gather final : public msg::Home {
 public:
  using Put = std::function<void(msg::Call*, ShardModel::Came)>;

  // `spec` is used while Calls are inside; `env` outlives this. `put` sends one on, whose Events may come at once.
  Gather(base::Env& env, const msg::ModelSpec& spec, RowsFor what, Put put);
  ~Gather();  // no Call is inside

  void take(msg::Call* call, ShardModel::Came came);
  // Calls were cancelled. Those of requests whose last one was end with the model's own look().
  void look();

 private:
  struct Member {
    msg::Call* call;  // null: it has been answered
    ShardModel::Came came;
    size_t weight = 0;
  };
  struct Group;
  // A bad text among n takes 2 log2(n) requests.
  static constexpr double kMostRepeats = 128, kRepeatShare = 0.2;

  void post(std::vector<msg::Mail>& burst) override;
  void post_here(msg::Mail&& mail) override;

  void wake();
  void turn();
  void send_waiting();
  bool join(const Member& member, TextRows& rows, std::vector<std::unique_ptr<Group>>& open) const;
  void send(std::unique_ptr<Group> group);
  void answer(Group& group, msg::Outputs&& outputs);
  void fail(Group& group, const base::Status& status);
  void send_halves();
  bool may_repeat(size_t requests);
  static void end(Member& member, msg::Event&& event);
  static bool leaves(Member& member);

  base::Env& env_;
  const msg::ModelSpec& spec_;
  const RowsFor what_;
  const Put put_;
  std::deque<Member> waiting_, alone_;
  std::deque<std::vector<Member>> halves_;  // of requests that failed
  double repeats_ = kMostRepeats;           // requests that halves may make now
  std::unordered_map<const msg::Call*, std::unique_ptr<Group>> sent_;
  std::vector<std::unique_ptr<Group>> over_;  // until the next turn: their Calls may be on the stack
  base::TimerId timer_ = base::TimerId::kNone;
};

}  // namespace weir::forward
