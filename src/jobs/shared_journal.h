// SharedJournal: the Store's work on the journal of a cluster: by its Replica, in groups, and again where others were
// faster or the log is away. On the Store's thread, but for what says otherwise.
//
// While the log is away reads go on; what would be written fails with UNAVAILABLE, but for work that was granted (a
// result, a job that is given back): that waits here, untouched until the log is there again. Of that what somebody is
// told of is no more than jobs run at once; of the rest (parts of uploads that came to nothing) there is kMostWaiting.
// What clients ask for waits where the log is new and may begin with another copy, while kMostWaiting are not reached.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/env.h"
#include "jobs/replica.h"
#include "jobs/work.h"

namespace weir::jobs {

class SharedJournal {
 public:
  static constexpr unsigned kMostTries = 16;
  static constexpr size_t kMostAtOnce = 64;  // pieces of work in a group
  static constexpr size_t kMostWaiting = 4096;
  static constexpr base::Duration kRetry = std::chrono::milliseconds(250);

  struct Bounds {
    uint64_t file = UINT64_MAX;  // bytes of records, as of Replica::Options
    uint64_t longest = 0;        // bytes of a line or a result: where an entry holds less, that is said
  };
  // `end`: jobs of a batch that run here are to end. Borrowed: all but `name`.
  SharedJournal(ReplicaState& state, Log& log, std::string name, Bounds bounds,
                std::function<void(const std::string& batch)> end);

  // Any thread: the other nodes that are there.
  void set_nodes(std::set<std::string> names);
  // Any thread: this one ends; what takes long is left.
  void stop() { stopping_ = true, replica_.stop(); }

  // Applies what is in the log, does the work, and then what waits if its time has come.
  void perform(std::deque<Work> works);
  // A step of each duty, if they are this node's. True: there is more to do. `failed` is told of errors.
  using Failed = std::function<void(const base::Status&)>;
  bool look_after(const std::vector<Duty*>& duties, base::WallTime now, const Failed& failed);
  // A job of which nobody else has been given. `most`: that may be claimed at once.
  std::optional<Job> claim(size_t most, base::WallTime now);
  bool waits() const { return !waiting_.empty(); }

  // Ends the batch's jobs on all nodes. `storage`: as work is given it.
  static void end_everywhere(Storage& storage, const std::string& batch);

  // Any thread: pieces of work of which nobody is told, and that were left out since too many waited.
  uint64_t left_out() const { return shown_.left_out; }
  // Any thread. For people: empty, or what is wrong.
  std::string detail() const;
  void write_families(std::string& out) const;

 private:
  void catch_up();
  void do_all(std::deque<Work>& works);
  void group(std::deque<Work>& works);
  void try_waiting();
  void refuse_asked(const base::Status& why);
  bool may_wait(const Work& work, const base::Status& status) const;
  void wait(Work work);
  void settle(Work work, const base::Status& status);
  void tell_ended();
  void look_at_nodes(base::Time now, const Failed& failed);
  bool shorten(base::Time now, const Failed& failed);
  bool step(Duty& duty, base::WallTime now, const Failed& failed);
  bool settled(base::Time now);
  const std::set<std::string>* nodes(base::Time now);
  void note(const base::Status& status);
  void tell();
  bool away() const { return !seen_.ok(); }

  ReplicaState& state_;
  Log& log_;
  Replica replica_;
  const uint64_t longest_;
  const std::function<void(const std::string& batch)> end_;
  std::deque<Work> waiting_;
  size_t untold_ = 0;                                               // of them, of which nobody is told
  size_t left_out_ = 0;                                             // since the first of them waits
  base::Time retry_{}, look_{}, shorten_{}, snapshot_{}, known_{};  // known_: the nodes have been since then
  base::Status seen_;                                               // of the log, when it was last asked
  base::Code told_ = base::Code::kOk;                               // in this process's log
  bool had_duties_ = false;
  bool unreached_ = false;  // what the last group has written
  std::set<std::string> nodes_;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;                    // of the next two
  std::optional<std::set<std::string>> fresh_;  // nodes that are not looked at yet
  std::string why_away_;
  struct Shown {
    std::atomic<base::Time> away_since{base::Time()};  // Time(): it is there
    std::atomic<uint64_t> sequence{0}, skipped{0}, voided{0}, waiting{0}, left_out{0};
    std::atomic<bool> duties{false};
  };
  Shown shown_;
};

}  // namespace weir::jobs
