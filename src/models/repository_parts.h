// The parts of a Repository, and what its threads do with them.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "models/demand.h"
#include "models/load_jobs.h"
#include "models/loader.h"
#include "models/model_table.h"
#include "models/publisher.h"
#include "models/repository.h"
#include "models/repository_lock.h"
#include "models/restart_backoff.h"
#include "models/task_queue.h"
#include "models/upload.h"
#include "models/watch.h"

namespace weir::models {

// Without the lock: run(). All else with it; what is marked "may load" is called in a job that loads the model named,
// and gives the lock away.
struct Repository::Parts {
  using Folders = std::map<std::string, ModelFolder>;
  using Done = std::function<void(base::Status)>;
  using Clock = std::chrono::steady_clock;
  class Requests;  // repository_requests.h
  class Disk;      // repository_disk.h

  Parts(RepositoryOptions o, std::map<std::string, EngineMaker> e, base::SlabSource& s, Publish p);
  ~Parts();

  void run();  // the thread
  void work();
  Clock::time_point next_look() const;
  void publish();
  void destroy_unused();
  void broke(const Loader::Broken& broken);
  bool report_broken(const Loader::Broken& broken);
  bool comes_back(const std::string& name) const;
  void revive(const std::string& name);  // may load
  // May load. With kDemand, where `into` does not say, the model is looked at and does not stay in memory.
  base::Status load_one(const ModelFolder& folder, std::unique_ptr<Upload> upload);
  base::Status load_one(const ModelFolder& folder, std::unique_ptr<Upload> upload, ModelTable::Into into);
  void wait_for_retired(const std::string& name);
  base::Status load_wanted(const std::string& name);               // may load
  base::Result<ModelFolder> find(const std::string& name);         // gives the lock away
  base::Result<ModelConfig> configure(const ModelFolder& folder);  // gives the lock away
  base::Status not_found(const std::string& name) const;
  base::Status not_there(const std::string& name, const base::Status& why) const;  // of find()

  const RepositoryOptions options;
  const std::map<std::string, EngineMaker> engines;
  base::SlabSource& slabs;
  const std::shared_ptr<TaskQueue> queue = std::make_shared<TaskQueue>();
  std::thread thread;
  std::promise<void> ended;  // by the thread
  const std::shared_future<void> end = ended.get_future().share();

  RepositoryLock lock;  // of all that follows; taken before the queue's mutex
  LoadJobs jobs;
  Loader loader;
  ModelTable table{lock};
  Watch watch;
  std::set<std::string> wanted;              // kExplicit: what is to be loaded
  std::set<std::string> asked_for;           // models that a request or the start names, beside those loaded along
  std::set<std::string> away;                // kDemand: what a request has unloaded, until one loads it
  std::vector<Loader::Broken> broken_early;  // of versions that are not in the table yet
  Publisher publisher;
  Demand demand;
  RestartBackoff restarts;
  bool destroying = false;  // a job destroys what was retired
  const std::unique_ptr<Requests> requests;
  const std::unique_ptr<Disk> disk;
};

}  // namespace weir::models
