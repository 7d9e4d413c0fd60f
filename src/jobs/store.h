// Store: the one thread that reads and writes the journal, so that no shard waits for a disk.
//
// Work is posted from any thread and done in its order; between two pieces of it the duties of the dialects are looked
// after (a batch whose lines are checked, results that become files), a slice at a time, and shards that want jobs get
// what waits. All that a duty has to know is in the journal: a process that dies in the middle is no special case.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/env.h"
#include "base/ids.h"
#include "base/metrics.h"
#include "base/status.h"
#include "jobs/database.h"
#include "jobs/journal.h"
#include "jobs/missing_models.h"
#include "jobs/work.h"

namespace weir::jobs {

struct Limits {
  uint64_t max_file = uint64_t(100) << 20;   // bytes of one upload
  uint64_t max_line = uint64_t(4) << 20;     // of one line of a batch
  uint64_t max_lines = 50000;                // of one batch
  uint64_t max_result = uint64_t(16) << 20;  // bytes of one answer
  uint64_t disk = uint64_t(10) << 30;        // of the journal's file
  uint64_t tenant_disk = uint64_t(2) << 30;  // of one tenant's files and jobs
  uint64_t max_files = 1000;                 // of one tenant, as the next
  uint64_t max_batches = 100;                // that are not over
  uint32_t concurrency = 4;                  // jobs at once
  base::Duration file_ttl = std::chrono::hours(30 * 24);
  base::Duration result_ttl = std::chrono::hours(24);  // of jobs that are over, and of jobs that never began
};

class Log;
class SharedJournal;

class Store {
 public:
  static constexpr size_t kMostWaiting = 4096, kMostUntold = 4 * kMostWaiting;  // pieces of work
  static constexpr base::Duration kLastWork = std::chrono::seconds(5);

  // `folder` empty: there is none, and why_off says so to clients.
  Store(std::string folder, Limits limits, std::string why_off);
  ~Store();

  // Before open(): this node is `name` of a cluster, whose nodes have one journal by `log`. Borrowed until stop().
  void share(Log& log, std::string name);
  // Any thread: the other nodes that are there; something may be new in the log.
  void set_nodes(std::set<std::string> names);
  void poke();
  // Once, before the rest. Errors: as of open_database(). A build without SQLite is none.
  base::Status open();
  // OK, or UNIMPLEMENTED with the reason. Any thread.
  const base::Status& available() const { return available_; }
  const Limits& limits() const { return limits_; }
  bool is_shared() const { return log_ != nullptr; }
  void count_in(base::Metrics& metrics);

  // Before start(); borrowed.
  void add(Duty& duty) { duties_.push_back(&duty); }
  // A shard's end of it: both are called on the store's thread, and hand over to the shard's.
  struct Receiver {
    std::function<void(Job)> run;
    std::function<void(const std::string& batch)> cancel;
  };
  void attach(base::ShardId shard, Receiver receiver);
  void start();
  // Nothing is called any more when it returns; what has been posted is done first. A cluster's log that has not taken
  // it within `most` is given up, kLastWork later the rest; where a disk stands, the process ends. Jobs run again then.
  void stop(base::Duration most = kLastWork);

  // False: too much waits; kGranted: that is no reason. Any thread.
  using Admission = Work::Admission;
  bool post(std::function<void(Storage&)> run, Admission admission = Admission::kAsked,
            std::function<void(const base::Status&)> then = {});
  // A write that is granted, and tried again until it succeeds or the store is stopped. Where `then` is null, it is
  // left out, and counted, if kMostUntold pieces of work wait already, or kMostWaiting that have been tried. Any
  // thread.
  void write(
      std::function<base::Status(Storage&)> run, std::function<void(const base::Status&)> then = [](const auto&) {});
  // The shard can run so many more jobs. Any thread.
  void want(base::ShardId shard, uint32_t jobs);
  // Any thread: those of the batch's jobs that run are ended, on all nodes.
  void cancel(const std::string& batch);
  // Any thread. For people: what is wrong with the cluster's log; empty: nothing.
  std::string detail() const;
  // Which models jobs have asked for in vain, on any shard. Any thread.
  MissingModels& missing() { return missing_; }
  // For the metrics and the log.
  class Shown {
   public:
    std::atomic<uint64_t> bytes{0}, claimed{0}, finished{0}, failed{0}, errors{0}, left_out{0};

    // A job came to its end. Any thread.
    void note_finished(int status) { (status >= 400 || status == 0 ? failed : finished).fetch_add(1); }
    // A step of the journal failed. The log gets one in ten seconds. The store's thread.
    void note(const base::Status& error);
    // Work that a client had asked for failed: it is a step that did where the disk is full, or the file gone. The
    // store's thread.
    void note_asked(const base::Status& error);
    // A client was told that the journal is late. The log gets one in ten seconds. Any thread.
    void note_late();
    // A write was left out, since so many pieces of work wait. The log gets the first of them, and when nothing waits
    // any more. Any thread.
    void note_left_out(size_t waiting);
    void note_all_written();

   private:
    bool may_tell();

    std::atomic<base::Time> told_{base::Time::min()};
    std::atomic<bool> leaving_out_{false};
  };
  Shown& shown() { return shown_; }

 private:
  void run();
  std::deque<Work> take_work();
  void work_on(std::deque<Work> works);
  bool look_after();  // true: there is more to do
  bool hand_out();
  bool hand_over(size_t shard, Job& job);
  void give_back();
  base::Result<std::optional<Job>> claim();
  void cancel_here(const std::string& batch);

  const std::string folder_;
  const Limits limits_;
  base::Status available_;
  std::unique_ptr<Database> database_;
  Log* log_ = nullptr;  // null: this node is alone
  std::string name_;
  std::unique_ptr<SharedJournal> shared_;  // with log_
  std::vector<Duty*> duties_;
  std::vector<Receiver> receivers_;  // by shard
  size_t next_ = 0;                  // whose turn it is

  MissingModels missing_;

  std::deque<Work> again_;  // could not be written
  base::Time again_at_{};

  static constexpr size_t kMostUnhanded = 16;
  std::vector<JobId> unhanded_;  // claimed, and no shard has got them

  std::mutex mutex_;  // of the next seven
  std::condition_variable wake_;
  std::deque<Work> queue_;
  std::vector<uint32_t> wanted_;  // by shard
  bool look_ = false;             // a shard wants jobs, or there is news, since the last look
  bool stopping_ = false;
  bool over_ = false;  // the thread has ended
  std::condition_variable ended_;
  std::thread thread_;

  Shown shown_;
};

}  // namespace weir::jobs
