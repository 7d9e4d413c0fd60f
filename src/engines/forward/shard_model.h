// ShardModel: the Calls of one forwarded model that are under way on one shard, and the shard's connections to its
// origins. On the shard's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "bus/stats.h"
#include "engines/forward/kind.h"
#include "engines/forward/origin.h"
#include "engines/forward/origin_conn.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::forward {

class ForwardedCall;
class Gather;
class Quantile;
class SequenceLines;

class ShardModel {
 public:
  // Whether a Call was put on this thread, so that its Events need no lock.
  enum class Came : uint8_t { kHere, kFromElsewhere };

  // `spec` and `stats` are used while Calls are inside only; the others outlive this.
  ShardModel(net::Shard& shard, std::shared_ptr<Target> target, const msg::ModelSpec& spec, bus::ModelStats& stats,
             base::SlabSource& slabs);
  ~ShardModel();  // no Call is inside

  void put(msg::Call* call, Came came);
  // Calls were cancelled, or have credit again.
  void look();

 private:
  friend class ForwardedCall;
  friend class Hedge;
  using Calls = std::list<std::unique_ptr<ForwardedCall>>;

  void put_alone(msg::Call* call, Came came);
  base::Status begin(ForwardedCall& one);
  base::Result<Origin*> choose(const ForwardedCall& one, const Origin* tried);
  base::Result<Origin*> choose_for_sequence(const ForwardedCall& one);
  bool may_repeat(ForwardedCall& one, From from);
  bool repeat(ForwardedCall& one, From from, base::Status& why);
  void count_health(Origin& origin, From from);
  void over(ForwardedCall& one, Attempt::Outcome&& ending);
  void hedge_later(ForwardedCall& one);
  void begin_hedge(ForwardedCall& one);
  void hedge_over(ForwardedCall& one, Attempt::Outcome&& ending);
  void finish(ForwardedCall& one, base::Status&& status, msg::Event&& last = {msg::Failed{}});
  void watch_time();
  void end_late();
  void end_line(ForwardedCall& one, const base::Status& status);
  void start_waiting();
  OriginConn& conn_to(const Origin& origin);

  net::Shard& shard_;
  const std::shared_ptr<Target> target_;
  const msg::ModelSpec& spec_;
  bus::ModelStats& stats_;
  base::SlabSource& slabs_;
  std::vector<std::unique_ptr<OriginConn>> conns_;  // as the origins
  Calls calls_, spare_;                             // places of calls that are over
  std::unique_ptr<SequenceLines> lines_;
  std::unique_ptr<Gather> gather_;     // null: every Call goes alone
  std::deque<ForwardedCall*> waited_;  // behind others of their sequence; they go on, or end, in the next turn
  base::TimerId waited_timer_ = base::TimerId::kNone;
  base::TimerId timer_ = base::TimerId::kNone;
  base::Time wall_at_{};  // the turn that wall_ms_ is of
  uint64_t wall_ms_ = 0;
  std::unique_ptr<Quantile> usual_;  // how long calls take; null: nobody asks
  double repeats_ = kMostRepeats;    // of calls that an origin may have seen

  static constexpr double kMostRepeats = 10, kRepeatShare = 0.2;  // a fifth of all calls, in the long run
};

}  // namespace weir::forward
