// LoadJobs: what is to be done with the models of a Repository: for one model one after the other, in the order in
// which it was asked for; for different ones beside each other, each on a thread of its own.
//
// At most so many loads have a place at once. A thread that waits for another load gives its place away meanwhile, and
// one that has had it for `patience` gives it away for good, where others wait for one: it may hang. At most as many
// loads have done so at a time as there are places. Loads that a model asks for while it is loaded itself need no
// place: it keeps its own until they have ended.
//
// Under the repository's lock, take_turn() excepted; work runs with the lock, and may give it away.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/env.h"
#include "models/busy_models.h"
#include "models/repository_lock.h"
#include "models/task_queue.h"

namespace weir::models {

class LoadJobs {
 public:
  using Work = std::function<void()>;
  using Clock = std::chrono::steady_clock;
  // kNothing: work that takes no time, on the thread that calls start_ready(). kThread: a thread. kPlace: a thread, and
  // one of the places.
  enum class Needs : uint8_t { kNothing, kThread, kPlace };

  // Both are borrowed. The queue is poked when start_ready() has something to do. `places`: at least 1.
  LoadJobs(RepositoryLock& lock, std::shared_ptr<TaskQueue> queue, uint32_t places, base::Duration patience)
      : lock_(lock), queue_(std::move(queue)), places_(places), patience_(patience) {}
  ~LoadJobs();  // idle() by then

  // `work` runs once all that was added of this model before has been done and nobody loads it. On a thread, it is the
  // one that loads the model meanwhile.
  void add(std::string model, Needs needs, Work work);
  // On a thread, whatever is done for any model.
  void add_beside(Work work);
  // On the repository's thread: begins what can begin.
  void start_ready();
  // When start_ready() has something to do though nobody pokes the queue; max: never.
  Clock::time_point next_look() const;
  // The same, when the Repository ends: runs all that has not begun, which has only to refuse what it was asked for.
  void run_rest();
  // Nothing runs, and nothing waits.
  bool idle() const { return threads_.empty() && waiting_.empty() && beside_.empty(); }

  bool is_busy(const std::string& model) const { return busy_.contains(model); }
  uint32_t places() const { return places_; }

  // The caller loads the model, from here to release(), once nobody else does. `waiter`, where it is not empty, is the
  // model whose load waits for this one. False: that would wait for itself, or the Repository ends.
  bool claim(const std::string& model, const std::string& waiter);
  void release(const std::string& model, const std::string& waiter);
  // claim() without a wait: false where somebody loads it. What runs until release() may be added later.
  bool claim_now(const std::string& model) { return busy_.add(model); }
  // The two parts of claim(): whether that load may wait for this one, which is noted then; and the wait. Where the
  // wait fails it is no longer noted.
  bool may_wait(const std::string& waiter, const std::string& model) { return busy_.begin_wait(waiter, model); }
  bool claim_when_free(const std::string& model, const std::string& waiter);

  // LoadArgs::turn. Without the lock.
  std::shared_ptr<void> take_turn(const std::string& of);
  // LoadArgs::aside. Without the lock. Null: the calling thread has no place.
  std::shared_ptr<void> step_aside();

 private:
  struct Turn;
  struct Aside;
  struct Job {
    Needs needs;
    Work work;
  };
  struct Running {
    std::thread thread;
    std::string model;
    bool has_place = false, lost_place = false;  // lost: it has given it away for good
    Clock::time_point since{};                   // of the place
  };
  using Threads = std::map<uint64_t, Running>;
  void list(const std::string& model);
  std::optional<Job> take(const std::string& model);
  void begin(const std::string& model, Job job);
  void begin_thread(std::string model, bool needs_place, Work work);
  void run(uint64_t number, const Work& work);
  void end(uint64_t number);
  void join_ended();
  void free_model(const std::string& model);
  // A load waits for a place, and one that has its place may lose it.
  bool may_free_place() const { return !for_place_.empty() && taken_ >= places_ && lost_ < places_; }
  void free_places();
  bool give_place();
  void take_place();
  Running* current();

  RepositoryLock& lock_;
  const std::shared_ptr<TaskQueue> queue_;
  const uint32_t places_;
  const base::Duration patience_;
  BusyModels busy_;
  std::map<std::string, std::deque<Job>> waiting_;  // by model; none is empty
  std::deque<std::string> at_once_, for_place_;     // models whose first job may begin, those that are busy among them
  std::deque<Work> beside_;
  Threads threads_;
  uint64_t last_number_ = 0;
  std::vector<uint64_t> ended_;  // of threads_, to be joined
  uint32_t taken_ = 0;           // places
  uint32_t lost_ = 0;            // of threads_, those that have lost theirs
  std::set<std::string> turns_;
};

}  // namespace weir::models
