// Replica: the journal of a cluster as one node has it: a copy in its own file, which is as far as some entry of the
// Log.
//
// Work runs on the copy and is rolled back; what it has written becomes commands, which go into the log, and come to
// this copy, as to all others, from there. Thus all copies are equal, and what a piece of work has come to is what its
// commands did at their place in the log: of two nodes that claim a job, the first one in the log has it. Where
// something is not as the work has found it, its commands do nothing and it is run again (ABORTED).
//
//   perform() -> run, note, roll back -> Log::append() -> apply all up to it -> OK, ABORTED
//
// The duties are looked after by one node. Its name is in the journal, and commands of a duty do nothing where it has
// changed. What a node that is gone had claimed, any node releases (free).
//
// A log that NATS has lost, and that was made anew, begins with a copy: with that which is furthest, in the latest log,
// of those that are told there. The others take it, unless they have acknowledged what it lacks. A copy that has
// nothing leaves them the time for that before it writes to a log where nothing is.
//
// On the Store's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.h"
#include "jobs/commands.h"
#include "jobs/log.h"
#include "jobs/log_beginning.h"
#include "jobs/recorder.h"
#include "jobs/replica_state.h"
#include "jobs/snapshots.h"

namespace weir::jobs {

class Replica {
 public:
  struct Options {
    std::string name;                  // of this node; no '/'
    uint64_t most_bytes = UINT64_MAX;  // of records, before work of this node that adds some is refused
    std::function<std::string()> random_id;
    std::function<base::Time()> now;
  };
  // Ids of so many entries are remembered, and an entry must be written down within so many of what it was made of:
  // it is never applied twice.
  static constexpr uint64_t kWindow = 10000;
  // A node that is not among those that are there is gone after this: it may just be new.
  static constexpr base::Duration kGrace = std::chrono::seconds(2);

  // All borrowed.
  Replica(ReplicaState& state, Log& log, Options options);

  // Applies what has come: a slice. True: there may be more. UNAVAILABLE: the log is away, and the copy as it was.
  // FAILED_PRECONDITION: it is another log, or a part of it is gone that the copy lacks. May take as long as to lay the
  // copy into an empty log.
  base::Result<bool> catch_up();

  // Applies the newest snapshot, if the copy is behind it. UNAVAILABLE.
  base::Status take_snapshot();
  // Shortens the log where it has become long: a slice. True: there is more to do. The holder of the duties alone.
  base::Result<bool> shorten_log() { return snapshots_.shorten(position_); }

  using Run = std::function<void(Recorder&)>;
  // Runs the first of those, as many as make one entry, and says what each has come to: OK also where it has written
  // nothing; ABORTED: others were faster; UNAVAILABLE: nobody knows, or the log is away. What is thrown is a failure,
  // of the first at least.
  std::vector<base::Status> perform(std::span<const Run> works, Record::As as = Record::As::kNode);

  // Jobs that this node has claimed, and batches whose jobs are to be ended, since they were taken last. Of the jobs
  // the next that it still has: others may have given it back meanwhile, in a snapshot, too.
  std::deque<Job>& claimed() { return kept_.claimed; }
  std::optional<Job> next_claimed();
  std::vector<std::string> take_ended() { return std::exchange(kept_.ended, {}); }

  // Releases what nodes have that are gone, and takes the duties of such a one. `there`: the other nodes; null: nobody
  // knows now, and none is missed. True: something was written.
  base::Result<bool> look_after_nodes(const std::set<std::string>* there, base::Time now);
  bool has_duties();
  // Another node has the duties: a snapshot that was begun here is left to it.
  void leave_duties() { snapshots_.give_up(); }
  // Any thread. For good: a snapshot that is made or taken is left in the middle.
  void stop() { snapshots_.stop(); }

  // Another one after a snapshot was taken: what stands in it as claimed by this node has never come here.
  const std::string& origin() const { return origin_; }
  uint64_t sequence() const { return position_.sequence; }
  uint64_t skipped() const { return skipped_; }
  uint64_t voided() const { return voided_; }

 private:
  struct Pending {  // this node's entry, whose place in the log is waited for
    std::string id;
    uint64_t sequence = 0;      // 0: not known
    std::vector<bool> is_void;  // by record, once it is applied
    bool applied = false;
    std::string origin;  // as which it was written
  };
  struct Kept {  // of what is applied
    std::deque<Job> claimed;
    std::vector<std::string> ended;
  };
  void perform(std::span<const Run> works, Record::As as, std::vector<base::Status>& out);
  base::Status dry_run(const Run& run, std::string& commands);
  base::Status submit(EntryContent entry, Pending& pending);
  base::Status check_identity();
  base::Result<bool> is_of(const Log::Extent& extent);
  base::Result<bool> goes_on_in(const Log::Extent& extent);
  base::Status begin_log(const Log::Extent& extent, uint64_t newest);
  void moved_to(const ReplicaState::Position& position);
  base::Result<bool> apply_slice(Log::LogEntry first);
  base::Status apply_all(std::optional<Log::LogEntry> entry, bool& more);
  base::Status apply(const Log::LogEntry& entry, Effects& effects);
  base::Status apply_record(const Record& record, const EntryContent& entry, Effects& effects, bool& is_void);
  bool is_gone(const std::string& holder, const std::set<std::string>& there, base::Time now);

  ReplicaState& state_;
  Log& log_;
  const Options options_;
  std::string origin_;
  Recorder recorder_;
  Snapshots snapshots_;
  LogBeginning beginning_;
  ReplicaState::Position position_;
  using Connection = std::pair<std::string, uint64_t>;  // identity of a log, and the number
  Connection checked_;                                  // of the log that the copy is of, or is not (diverged_)
  Connection told_;                                     // where this copy was told to the others
  base::Time told_at_;
  bool unproven_ = false;    // its newest entry was dropped from the log: the next snapshot says whether it is of it
  bool diverged_ = false;    // it is not of it
  bool incomplete_ = false;  // entries are gone that the copy has not got: it changes nothing until a snapshot has them
  Pending* pending_ = nullptr;
  Kept kept_;
  std::map<std::string, base::Time> absent_;  // holders, by when they were missed first
  uint64_t skipped_ = 0, voided_ = 0;
};

}  // namespace weir::jobs
