// Demand: models come into memory when a request asks for them, and the least recently used leave when there is no room
// (models.control: demand).
//
// Each model is loaded once when it is first seen, so that its inputs, outputs and faults are known;
// then it serves with a stand-in whose Calls wait (sched/demand_inbox.h). The first of them asks for it here. One model
// is loaded at a time, in the order in which they were asked for, once those that make room have left; one whose load
// hangs keeps the others here waiting, and nobody else.
//
// A model that runs may ask others (ModelWaits). It does not leave for what it waits for, as its Calls would not end:
// where there is no room beside it the request is refused at once. Then it leaves, where clients wait for the same
// model. Those that wait for a model that is not in memory are the last to leave for any.
//
// Under the repository's lock, but for what a stand-in asks.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "models/repository.h"
#include "models/residence.h"
#include "models/task_queue.h"
#include "sched/deadline_timer.h"

namespace weir::models {

class Demand {
 public:
  // How long requests for a model fail at once after it has failed to load; then one tries again.
  static constexpr base::Duration kQuiet = std::chrono::seconds(10);

  using Done = std::function<void(base::Status)>;
  struct Hooks {
    // Brings a model into memory, and says then what became of it.
    std::function<void(const std::string& model, Done done)> load;
    std::function<bool(const std::string& model)> is_being_loaded;  // by anybody
    std::function<void()> publish;                                  // gives what the table has now to the shards
  };
  // All borrowed.
  Demand(const RepositoryOptions& options, ModelTable& table, std::shared_ptr<TaskQueue> queue, Hooks hooks);

  bool on() const { return residence_ != nullptr; }
  bool is_missing(const std::string& model) const { return on() && residence_->is_missing(model); }
  // A request asks for the model.
  void want(const std::string& model);
  // The same; `done` is told once it is in memory, or why it is not. Nothing is told where this is off.
  enum class Asks : uint8_t { kClient, kModel };
  void want(const std::string& model, Asks who, Done done);
  // The least recently used leave until all are within models.memory, the one that is being loaded among them. False:
  // those that are left cannot leave. Those that wait for what is wanted may be left, too: this is true then, and
  // nothing leaves before something else is wanted.
  bool trim();
  // Begins to load what is wanted next, where there is room now; to be called whenever something may have left, or been
  // loaded.
  void step();
  // Nothing is loaded any more: Calls that wait fail.
  void end();

 private:
  enum class Room : uint8_t { kNow, kSoon, kNever };
  using Names = std::set<std::string>;
  struct Asked {
    Asks who;
    Done done;
  };
  bool begin_next();
  bool refuse_one();
  void note_waiting();
  Room make_room(uint64_t bytes, const Names& waiting);
  uint64_t staying_bytes(const Names& waiting) const;
  bool any_leaves() const;
  bool let_one_go();
  void begin(const std::string& model);
  void end(const std::string& model, const base::Status& outcome);
  void fail(const std::string& model, const std::string& why);
  void refuse(const std::string& model);
  void refuse_models(const std::string& model);
  void notify(const std::string& model, const base::Status& outcome);
  void forget(const std::string& model);
  std::shared_ptr<bus::Served> stand_in(const bus::Served& loaded);

  const RepositoryOptions& options_;
  const ModelTable& table_;
  const std::unique_ptr<Residence> residence_;  // null where this is off
  const std::shared_ptr<TaskQueue> queue_;
  const Hooks hooks_;
  const std::shared_ptr<sched::DeadlineTimer> timer_ = std::make_shared<sched::TimerThread>();
  std::deque<std::string> wanted_;           // each once, in the order in which they were asked for
  bool loading_ = false;                     // one of them is being loaded
  uint64_t coming_ = 0;                      // bytes that it will take
  std::multimap<std::string, Asked> asked_;  // by model: who is told what became of it
  Names for_clients_;                        // of those wanted: models that ask for them are refused
  // For each other that is wanted: the models that wait for it, by way of others too.
  std::map<std::string, Names> waiting_;
  Names held_;  // all of those
};

}  // namespace weir::models
