#include "models/repository.h"

#include <algorithm>
#include <deque>
#include <future>
#include <set>
#include <thread>

#include "base/encoding.h"
#include "base/log.h"
#include "models/demand.h"
#include "models/load_order.h"
#include "models/loader.h"
#include "models/model_table.h"
#include "models/publisher.h"
#include "models/restart_backoff.h"
#include "models/root_scan.h"
#include "models/task_queue.h"
#include "models/upload.h"
#include "models/watch.h"

namespace weir::models {
namespace {

using Clock = std::chrono::steady_clock;
// How often the end of the last Call inside a replaced version is looked for; shards have no way to tell.
constexpr auto kRetireLook = std::chrono::milliseconds(5);
// How long Calls inside a version that makes way for the next one have to end.
constexpr auto kMostWayTime = std::chrono::seconds(30);
// The longest wait between two tries to load what could not be loaded yet.
constexpr auto kLongestRetry = std::chrono::seconds(5);

}  // namespace

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
  void refresh(const std::string& root, const std::vector<std::string>& names);
  void broke(const Loader::Broken& broken);
  bool comes_back(const std::string& name) const;
  void revive();
  base::Status not_found(const std::string& name) const;
  base::Status check_request(const std::string& name, std::string_view verb) const;

  const RepositoryOptions options;
  const std::map<std::string, EngineMaker> engines;
  base::SlabSource& slabs;
  const std::shared_ptr<TaskQueue> queue = std::make_shared<TaskQueue>();
  std::thread thread;

  // Used by the thread alone.
  Loader loader{options, engines, slabs, [this, queue = queue](Loader::Broken broken) {
                  queue->post([this, broken = std::move(broken)] { this->broke(broken); });
                }};
  ModelTable table;
  Watch watch;
  std::set<std::string> wanted;  // kExplicit: what is to be loaded
  std::set<std::string> away;    // kDemand: what a request has unloaded, until one loads it
  RootScan roots{options.roots};
  Publisher publisher;
  Demand demand{options, table, queue, [this](const auto& name) { return load_wanted(name); }, [this] { publish(); }};
  RestartBackoff restarts;
  Clock::time_point next_poll = Clock::time_point::max();
};

void Repository::Parts::run() {
  for (;;) {
    std::deque<std::function<void()>> tasks;
    {
      std::unique_lock lock(queue->mutex);
      auto until = std::min(next_poll, restarts.next());
      if (publisher.has_retired()) until = std::min(until, Clock::now() + kRetireLook);
      uint64_t awaited = publisher.awaited();
      auto ready = [&] { return queue->stopping || !queue->tasks.empty() || queue->settled >= awaited; };
      if (until == Clock::time_point::max())
        queue->changed.wait(lock, ready);
      else
        queue->changed.wait_until(lock, until, ready);
      tasks.swap(queue->tasks);
      if (queue->stopping && tasks.empty()) break;
    }
    for (auto& task : tasks) task();
    publisher.notify_settled();
    if (publisher.destroy_retired()) publish();
    demand.step();
    revive();
    if (Clock::now() >= next_poll) rescan(Watch::Settle::kYes), next_poll = Clock::now() + options.poll_interval;
  }
  demand.end();
  publisher.end();
}

void Repository::Parts::publish() {
  table.relink(loader);
  publisher.publish();
}

void Repository::Parts::broke(const Loader::Broken& broken) {
  bool anew = comes_back(broken.model);
  if (!table.mark_failed(broken, anew ? ModelTable::Next::kLoadAnew : ModelTable::Next::kNothing)) return;
  publish();
  if (anew) restarts.broke(broken.model, Clock::now());
}

// A model whose configuration came with a load request is not loaded anew: whoever sent it has to send it again.
bool Repository::Parts::comes_back(const std::string& name) const {
  return wanted.count(name) && !table.uploaded(name);
}

void Repository::Parts::revive() {
  for (const auto& name : restarts.due(Clock::now())) {
    if (!comes_back(name)) continue;  // any more
    auto folder = find(name);
    if (!folder) continue;
    table.mark_loading(name);
    publish();
    auto status = load_one(*folder, nullptr);
    if (!status.ok() && !base::worth_trying_again(status)) restarts.failed(name, Clock::now());
    publish();
  }
}

base::Result<Repository::Parts::Folders> Repository::Parts::scan() {
  auto found = roots.scan();
  if (!found) return found.error();
  table.set_skipped(std::move(found->skipped));
  return std::move(found->folders);
}

base::Status Repository::Parts::load_one(const ModelFolder& folder, std::unique_ptr<Upload> upload) {
  const bool waits = demand.on() && (!table.serves(folder.name) || demand.is_missing(folder.name));
  return load_one(folder, std::move(upload), waits ? ModelTable::Into::kReserve : ModelTable::Into::kMemory);
}

base::Status Repository::Parts::load_one(const ModelFolder& folder, std::unique_ptr<Upload> upload,
                                         ModelTable::Into into) {
  watch.took(folder.name, folder.fingerprint());
  auto status = table.load(folder, loader, upload, into);
  if (!status.ok() && table.make_way(folder.name)) {
    publish();
    publisher.wait_for_retired(kMostWayTime, kRetireLook);
    status = table.load(folder, loader, upload, into);
  }
  if (!status.ok() && base::worth_trying_again(status) && comes_back(folder.name))
    restarts.failed(folder.name, Clock::now(), kLongestRetry);
  return status;
}

base::Status Repository::Parts::load_wanted(const std::string& name) {
  auto folder = find(name);
  return folder ? load_one(*folder, nullptr, ModelTable::Into::kMemory) : not_found(name);
}

base::Status Repository::Parts::load_all() {
  auto folders = scan();
  if (!folders) return folders.error();
  bool everything = options.control != Control::kExplicit;
  for (const auto& name : options.startup)
    if (options.control == Control::kExplicit && name != "*") wanted.insert(name);
  if (std::count(options.startup.begin(), options.startup.end(), "*")) everything = true;
  for (const auto& [name, folder] : *folders)
    if (demand.on() && (std::count(options.startup.begin(), options.startup.end(), name) ||
                        std::count(options.startup.begin(), options.startup.end(), "*")))
      demand.want(name);
  for (const auto& [name, folder] : *folders) {
    if (everything) wanted.insert(name);
    table.register_model(name);
  }
  for (const auto& name : wanted) table.mark_loading(name);
  publish();
  base::Status first;
  for (const auto& name : in_order(*folders)) {
    auto folder = folders->find(name);
    auto status = folder == folders->end() ? not_found(name) : load_one(folder->second, nullptr);
    if (folder == folders->end()) table.fail(name, status.text);
    publish();
    if (!status.ok() && first.ok()) first = base::failure(status.code, "model '" + name + "': " + status.text);
  }
  if (options.control == Control::kPoll) next_poll = Clock::now() + options.poll_interval;
  return options.strict ? first : base::Status{};
}

// The models that are wanted, and the nodes of wanted pipelines; each pipeline behind its nodes.
std::vector<std::string> Repository::Parts::in_order(const Folders& folders) {
  auto order = nodes_first(wanted, [&](const std::string& name) {
    std::vector<std::string> nodes;
    if (auto folder = folders.find(name); folder != folders.end())
      if (auto config = loader.configure(folder->second))
        for (const auto& node : config->dag.nodes)
          if (folders.count(node.model)) nodes.push_back(node.model);
    return nodes;
  });
  wanted.insert(order.begin(), order.end());
  return order;
}

// The nodes of a pipeline that nobody has loaded yet, as Triton does.
void Repository::Parts::load_nodes(const ModelFolder& pipeline, const ModelConfig& config,
                                   std::set<std::string>& seen) {
  seen.insert(pipeline.name);
  for (const auto& node : config.dag.nodes) {
    if (table.serves(node.model) || !seen.insert(node.model).second) continue;
    auto folder = find(node.model);
    if (!folder) continue;
    if (auto deeper = loader.configure(*folder)) load_nodes(*folder, *deeper, seen);
    wanted.insert(node.model);
    load_one(*folder, nullptr);  // a failure is told by the pipeline, which finds no node
  }
}

base::Status Repository::Parts::not_found(const std::string& name) const {
  std::string text = "no model '" + name + "' in the repository";
  auto known = table.names();
  if (auto near = base::near_miss(name, known); !near.empty() && near != name)
    text += ", did you mean '" + std::string(near) + "'?";
  return base::failure(base::Code::kNotFound, std::move(text));
}

base::Status Repository::Parts::check_request(const std::string& name, std::string_view verb) const {
  if (!good_model_name(name)) return bad_name(name);
  if (options.control == Control::kExplicit || options.control == Control::kDemand) return {};
  const std::string now = options.control == Control::kPoll ? "poll" : "none";
  return base::failure(base::Code::kFailedPrecondition,
                       "cannot " + std::string(verb) + " '" + name + "': models.control is '" + now +
                           "'; requests load and unload models only with models.control: explicit or demand");
}

base::Status Repository::Parts::load_named(const std::string& name, const LoadParameters& parameters) {
  if (auto s = check_request(name, "load"); !s.ok()) return s;
  if (!parameters.empty()) return load_uploaded(name, parameters);
  auto folder = find(name);
  if (!folder) return not_found(name);
  if (!table.serves(name)) table.mark_loading(name), publish();
  wanted.insert(name), away.erase(name);
  std::set<std::string> seen;
  if (auto config = loader.configure(*folder)) load_nodes(*folder, *config, seen);
  auto status = load_one(*folder, nullptr);
  publish();
  return status;
}

base::Status Repository::Parts::load_uploaded(const std::string& name, const LoadParameters& parameters) {
  if (!options.allow_config_override)
    return base::failure(
        base::Code::kPermissionDenied,
        "load parameters ('config', 'file:…') are off; models.allow_config_override: true allows them");
  auto upload = Upload::make(name, parameters, options.batching);
  if (!upload) return upload.error();
  auto folder = (*upload)->root().empty() ? find(name) : find_model_folder({(*upload)->root()}, name);
  if (!folder) return not_found(name);
  wanted.insert(name), away.erase(name);
  std::set<std::string> seen;
  load_nodes(*folder, (*upload)->config(), seen);
  auto status = load_one(*folder, std::move(*upload));
  if (status.ok() && demand.on() && !demand.trim()) {
    status = base::failure(base::Code::kResourceExhausted, "models that cannot leave memory take all of models.memory");
    unload_one(name, Dependents::kKeep);
  }
  publish();
  return status;
}

base::Status Repository::Parts::unload_named(const std::string& name, Dependents dependents) {
  if (auto s = check_request(name, "unload"); !s.ok()) return s;
  if (!table.knows(name)) return not_found(name);
  unload_one(name, dependents);
  publish();
  return {};
}

void Repository::Parts::unload_one(const std::string& name, Dependents dependents) {
  auto nodes = table.nodes(name);
  wanted.erase(name);
  if (demand.on()) away.insert(name);
  watch.forget(name);
  table.unload(name, ModelTable::Row::kKeep);
  if (dependents == Dependents::kKeep) return;
  for (const auto& node : nodes)
    if (!table.is_node(node)) unload_one(node, dependents);
}

void Repository::Parts::rescan(Watch::Settle settle) {
  auto folders = scan();
  if (!folders) {
    base::log::warning("the model repository cannot be read", {{"reason", folders.error().text}});
    return;
  }
  bool all = options.control != Control::kExplicit;
  Watch::Fingerprints fingerprints;
  for (const auto& [name, folder] : *folders) {
    if (all && !away.contains(name))
      wanted.insert(name);
    else
      table.register_model(name);
    if (wanted.count(name) && !table.uploaded(name)) fingerprints[name] = folder.fingerprint();
  }
  auto changes = watch.compare(fingerprints, settle);
  for (const auto& name : changes.changed) load_one(folders->at(name), nullptr);
  for (const auto& name : changes.gone) {
    if (!table.uploaded(name)) drop(name);
  }
  if (!all || !changes.changed.empty() || !changes.gone.empty()) publish();
}

void Repository::Parts::refresh(const std::string& root, const std::vector<std::string>& names) {
  for (const auto& name : names) {
    auto folder = find(name);
    if (!folder && !table.uploaded(name)) wanted.erase(name), drop(name);
    if (!folder || folder->path != root + '/' + name) continue;
    wanted.insert(name);
    load_one(*folder, nullptr, ModelTable::Into::kMemory);
    publish();
  }
  publish();
}

Repository::Repository(RepositoryOptions options, std::map<std::string, EngineMaker> engines, base::SlabSource& slabs,
                       Publish publish)
    : parts_(std::make_unique<Parts>(std::move(options), std::move(engines), slabs, std::move(publish))) {}

Repository::~Repository() { stop(); }

base::Status Repository::start() {
  auto outcome = std::make_shared<std::promise<base::Status>>();
  auto status = outcome->get_future();
  parts_->queue->post([this, outcome] { outcome->set_value(parts_->load_all()); });
  parts_->thread = std::thread([this] { parts_->run(); });
  return status.get();
}

void Repository::load(std::string name, LoadParameters parameters, std::function<void(base::Status)> done) {
  auto shared = std::make_shared<std::function<void(base::Status)>>(std::move(done));
  bool posted = parts_->queue->post([this, name = std::move(name), parameters = std::move(parameters), shared] {
    auto notify = [this, name, shared](base::Status status) {
      // Clients of Triton look for these three words.
      if (!status.ok()) status.text.insert(0, "failed to load '" + name + "': ");
      parts_->publisher.when_published([shared, status] { (*shared)(status); });
    };
    auto status = parts_->load_named(name, parameters);
    if (!status.ok() || !parts_->demand.is_missing(name)) return notify(std::move(status));
    parts_->demand.want(name, notify);
  });
  if (!posted) (*shared)(base::failure(base::Code::kUnavailable, "the server is shutting down"));
}

void Repository::unload(std::string name, Dependents dependents, std::function<void(base::Status)> done) {
  auto shared = std::make_shared<std::function<void(base::Status)>>(std::move(done));
  bool posted = parts_->queue->post([this, name = std::move(name), dependents, shared] {
    auto status = parts_->unload_named(name, dependents);
    parts_->publisher.when_published([shared, status] { (*shared)(status); });
  });
  if (!posted) (*shared)(base::failure(base::Code::kUnavailable, "the server is shutting down"));
}

void Repository::rescan(std::function<void()> done) {
  auto shared = std::make_shared<std::function<void()>>(std::move(done));
  bool posted = parts_->queue->post([this, shared] {
    parts_->rescan(Watch::Settle::kNo);
    parts_->publisher.when_published([shared] { (*shared)(); });
  });
  if (!posted) (*shared)();
}

void Repository::refresh(std::string root, std::vector<std::string> names) {
  parts_->queue->post([this, root = std::move(root), names = std::move(names)] { parts_->refresh(root, names); });
}

void Repository::stop() {
  {
    std::lock_guard lock(parts_->queue->mutex);
    parts_->queue->stopping = true;
    parts_->queue->changed.notify_one();
  }
  if (parts_->thread.joinable()) parts_->thread.join();
}

}  // namespace weir::models
