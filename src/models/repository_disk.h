// Loads of what lies on the disk: at the start, and where something there has changed. Under the repository's lock;
// what "may load" is called in a job that loads the model named, and gives the lock away.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "models/load_order.h"
#include "models/repository_parts.h"
#include "models/root_scan.h"

namespace weir::models {

class Repository::Parts::Disk {
 public:
  explicit Disk(Parts& parts) : parts_(parts), jobs_(parts.jobs), table_(parts.table), roots_(parts.options.roots) {}

  // On the repository's thread, all of these. `done` is called with the lock, soon or later.
  // The first load of all that is wanted; then the repository is polled, where it is to be.
  void load_all(const Done& done);
  // Takes what has changed; `done` is called when it has been loaded.
  void rescan(Watch::Settle settle, const std::function<void()>& done);
  // Begins what is due: the next look at the repository, and loads of folders that refresh() has named.
  void work();
  // When something is due that nobody pokes for.
  Clock::time_point next_look() const { return std::min(next_poll_, next_refresh_); }
  // Why the last look at the folders came to nothing, or did for one root; empty: it did not. Any thread, without the
  // lock.
  std::string trouble() const;

 private:
  struct Start;
  using Configs = std::map<std::string, ModelConfig>;
  bool is_of_startup(const std::string& name) const;
  Configs configure(const Folders& folders) const;
  void choose_wanted(const Folders& folders, const Configs& configs);
  LoadOrder in_order(const Folders& folders, const Configs& configs) const;
  void begin_load(const std::shared_ptr<Start>& start, const std::string& name);
  base::Status load_at_start(const Start& start, const std::string& name);  // may load
  base::Result<RootScan::Found> scan(Watch::Settle settle);
  void note_trouble(const base::Status& look);
  Watch::Changes changes(const Folders& folders, Watch::Settle settle);
  void register_model(const ModelFolder& folder);  // gives the lock away
  void drop(const std::string& name);
  void refresh_some();
  void refresh_postponed();
  void refresh(const std::string& root, const std::string& name);  // may load

  Parts& parts_;
  LoadJobs& jobs_;
  ModelTable& table_;
  RootScan roots_;  // without the lock
  Clock::time_point next_poll_ = Clock::time_point::max();
  std::set<std::string> refreshing_;      // models with a job of refresh_some(), which waits or runs
  std::set<TaskQueue::Named> postponed_;  // of refresh(), until next_refresh_
  Clock::time_point next_refresh_ = Clock::time_point::max();
  mutable std::mutex trouble_mutex_;
  std::string trouble_;  // under trouble_mutex_
};

}  // namespace weir::models
