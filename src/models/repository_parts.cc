#include "models/repository_parts.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <mutex>

#include "base/encoding.h"
#include "base/log.h"
#include "models/load_order.h"

namespace weir::models {
namespace {

using Clock = std::chrono::steady_clock;
// How often the end of the last Call inside a replaced version is looked for; shards have no way to tell.
constexpr auto kRetireLook = std::chrono::milliseconds(5);
// How long Calls inside a version that makes way for the next one have to end.
constexpr auto kMostWayTime = std::chrono::seconds(30);
// How deep loads of models lie in each other that load others while they are loaded.
constexpr size_t kDeepestLoads = 8;
constexpr size_t kRefreshedAtOnce = 16;
// The longest wait between two tries to load what could not be loaded yet.
constexpr auto kLongestRetry = std::chrono::seconds(5);
// How long a refresh waits for the descriptor, or the memory, that it did not get.
constexpr auto kRefreshRetry = std::chrono::seconds(1);

base::Status is_ending() { return base::failure(base::Code::kUnavailable, "the server is shutting down"); }

base::Status is_being_loaded(const std::string& name) {
  return base::failure(base::Code::kFailedPrecondition, "model '" + name + "' is being loaded");
}

}  // namespace

void Repository::Parts::run() {
  for (;;) {
    std::deque<std::function<void()>> tasks;
    {
      std::unique_lock lock(queue->mutex);
      auto until = std::min({next_poll, restarts.next(), next_refresh});
      if (publisher.has_retired()) until = std::min(until, Clock::now() + kRetireLook);
      uint64_t awaited = publisher.awaited();
      auto ready = [&] {
        return queue->stopping || !queue->tasks.empty() || !queue->of_models.empty() || queue->settled >= awaited;
      };
      if (until == Clock::time_point::max())
        queue->changed.wait(lock, ready);
      else
        queue->changed.wait_until(lock, until, ready);
      tasks.swap(queue->tasks);
      std::move(queue->of_models.begin(), queue->of_models.end(), std::back_inserter(tasks));
      queue->of_models.clear();
      if (queue->stopping && tasks.empty()) break;
    }
    for (auto& task : tasks) task();
    publisher.notify_settled();
    if (publisher.destroy_retired()) publish();
    demand.step();
    revive();
    if (Clock::now() >= next_refresh) refresh_postponed();
    if (Clock::now() >= next_poll) rescan(Watch::Settle::kYes), next_poll = Clock::now() + options.poll_interval;
  }
  demand.end();
  publisher.end();
  ended.set_value();
}

// While load_one() waits for a model: what that asks for, or another one. Others wait until it is loaded.
bool Repository::Parts::serve_models() {
  if (being_loaded.size() >= kDeepestLoads) return !queue->ends();
  std::deque<std::function<void()>> tasks;
  {
    std::lock_guard lock(queue->mutex);
    tasks.swap(queue->of_models);
  }
  for (auto& task : tasks) task();
  publisher.notify_settled();
  return !queue->ends();
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
  if (queue->ends()) return;
  for (const auto& name : restarts.due(Clock::now())) {
    if (!comes_back(name)) continue;  // any more
    auto folder = find(name);
    if (!folder) {
      if (folder.error().code != base::Code::kNotFound) restarts.failed(name, Clock::now(), kLongestRetry);
      continue;
    }
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
  if (queue->ends()) return is_ending();
  if (!being_loaded.insert(folder.name).second) return is_being_loaded(folder.name);
  watch.took(folder.name, folder.fingerprint());
  auto status = table.load(folder, loader, upload, into);
  if (!status.ok() && table.make_way(folder.name)) {
    publish();
    publisher.wait_for_retired(kMostWayTime, kRetireLook);
    status = table.load(folder, loader, upload, into);
  }
  being_loaded.erase(folder.name);
  if (!status.ok() && base::worth_trying_again(status) && comes_back(folder.name))
    restarts.failed(folder.name, Clock::now(), kLongestRetry);
  return status;
}

base::Status Repository::Parts::load_wanted(const std::string& name) {
  auto folder = find(name);
  return folder ? load_one(*folder, nullptr, ModelTable::Into::kMemory) : not_there(name, folder.error());
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

base::Status Repository::Parts::not_there(const std::string& name, const base::Status& why) const {
  return why.code == base::Code::kNotFound ? not_found(name) : why;
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
  if (queue->ends()) return is_ending();
  if (auto s = check_request(name, "load"); !s.ok()) return s;
  if (being_loaded.count(name)) return is_being_loaded(name);
  if (demand.on() && !being_loaded.empty())
    return base::failure(base::Code::kFailedPrecondition,
                         "with models.control: demand a model cannot load others while it is loaded itself");
  if (!parameters.empty()) return load_uploaded(name, parameters);
  auto folder = find(name);
  if (!folder) return not_there(name, folder.error());
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
  if (!folder) return not_there(name, folder.error());
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
  if (queue->ends()) return is_ending();
  if (auto s = check_request(name, "unload"); !s.ok()) return s;
  if (!table.knows(name)) return not_found(name);
  if (being_loaded.count(name)) return is_being_loaded(name);
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
    if (!table.is_node(node) && !being_loaded.count(node)) unload_one(node, dependents);
}

void Repository::Parts::rescan(Watch::Settle settle) {
  if (queue->ends()) return;
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

// Others have their turn in between, and the end of the server does not wait for those that are left.
void Repository::Parts::refresh_some() {
  for (size_t done = 0; done < kRefreshedAtOnce; ++done) {
    TaskQueue::Named next;
    {
      std::lock_guard lock(queue->mutex);
      if (queue->stopping || queue->refreshed.empty()) return;
      next = std::move(queue->refreshed.front());
      queue->refreshed.pop_front(), queue->waiting.erase(next);
    }
    refresh(next.first, next.second);
  }
  queue->post([this] { refresh_some(); });
}

void Repository::Parts::refresh_postponed() {
  next_refresh = Clock::time_point::max();
  {
    std::lock_guard lock(queue->mutex);
    for (const auto& named : postponed)
      if (queue->waiting.insert(named).second) queue->refreshed.push_back(named);
  }
  postponed.clear();
  refresh_some();
}

void Repository::Parts::refresh(const std::string& root, const std::string& name) {
  auto folder = find(name);
  const bool gone = !folder && folder.error().code == base::Code::kNotFound;
  if (gone && !table.uploaded(name)) wanted.erase(name), drop(name);
  if (!folder && !gone) {  // the folder could not be looked at, so it may be a new one
    postponed.emplace(root, name);
    next_refresh = std::min(next_refresh, Clock::now() + kRefreshRetry);
  }
  if (folder && folder->path == root + '/' + name) {
    wanted.insert(name);
    load_one(*folder, nullptr, ModelTable::Into::kMemory);
  }
  publish();
}

}  // namespace weir::models
