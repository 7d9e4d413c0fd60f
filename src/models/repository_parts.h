// The parts of a Repository, and what its thread does with them.
#pragma once

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "models/demand.h"
#include "models/loader.h"
#include "models/model_table.h"
#include "models/publisher.h"
#include "models/repository.h"
#include "models/restart_backoff.h"
#include "models/root_scan.h"
#include "models/task_queue.h"
#include "models/upload.h"
#include "models/watch.h"

namespace weir::models {

struct Repository::Parts {
  using Folders = std::map<std::string, ModelFolder>;

  Parts(RepositoryOptions o, std::map<std::string, EngineMaker> e, base::SlabSource& s, Publish p)
      : options(std::move(o)),
        engines(std::move(e)),
        slabs(s),
        publisher(table, queue, options.default_model, std::move(p)) {}

  void run();
  void publish();

  base::Result<Folders> scan();
  base::Result<ModelFolder> find(const std::string& name) const { return find_model_folder(options.roots, name); }
  base::Status load_all();
  base::Status load_one(const ModelFolder& folder, std::unique_ptr<Upload> upload);
  base::Status load_one(const ModelFolder& folder, std::unique_ptr<Upload> upload, ModelTable::Into into);
  base::Status load_wanted(const std::string& name);
  std::vector<std::string> in_order(const Folders& folders);
  void load_nodes(const ModelFolder& pipeline, const ModelConfig& config, std::set<std::string>& seen);
  base::Status load_named(const std::string& name, const LoadParameters& parameters);
  base::Status load_uploaded(const std::string& name, const LoadParameters& parameters);
  base::Status unload_named(const std::string& name, Dependents dependents);
  void unload_one(const std::string& name, Dependents dependents);
  void rescan(Watch::Settle settle);
  void drop(const std::string& name) { watch.forget(name), table.unload(name, ModelTable::Row::kDrop); }
  void refresh_some();
  void refresh_postponed();
  void refresh(const std::string& root, const std::string& name);
  bool serve_models();  // LoadArgs::loading
  void broke(const Loader::Broken& broken);
  bool comes_back(const std::string& name) const;
  void revive();
  base::Status not_found(const std::string& name) const;
  base::Status not_there(const std::string& name, const base::Status& why) const;  // of find()
  base::Status check_request(const std::string& name, std::string_view verb) const;

  const RepositoryOptions options;
  const std::map<std::string, EngineMaker> engines;
  base::SlabSource& slabs;
  const std::shared_ptr<TaskQueue> queue = std::make_shared<TaskQueue>();
  std::thread thread;
  std::promise<void> ended;  // by the thread
  const std::shared_future<void> end = ended.get_future().share();

  // Used by the thread alone.
  Loader loader{options, engines, slabs,
                [this, queue = queue](Loader::Broken broken) {
                  queue->post([this, broken = std::move(broken)] { this->broke(broken); });
                },
                [this] { return serve_models(); }};
  ModelTable table;
  Watch watch;
  std::set<std::string> wanted;        // kExplicit: what is to be loaded
  std::set<std::string> being_loaded;  // by load_one(), of which one may be inside of another
  std::set<std::string> away;          // kDemand: what a request has unloaded, until one loads it
  RootScan roots{options.roots};
  Publisher publisher;
  Demand demand{options, table, queue, [this](const auto& name) { return load_wanted(name); }, [this] { publish(); }};
  RestartBackoff restarts;
  std::chrono::steady_clock::time_point next_poll = std::chrono::steady_clock::time_point::max();
  std::set<TaskQueue::Named> postponed;  // of refresh(), until next_refresh
  std::chrono::steady_clock::time_point next_refresh = std::chrono::steady_clock::time_point::max();
};

}  // namespace weir::models
