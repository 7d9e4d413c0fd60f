#include "models/repository_disk.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/log.h"

namespace weir::models {
namespace {

// How long a refresh waits for the descriptor, or the memory, that it did not get.
constexpr auto kRefreshRetry = std::chrono::seconds(1);

}  // namespace

// The first load of all models.
struct Repository::Parts::Disk::Start {
  Folders folders;
  LoadOrder order;
  Done done;
  size_t left = order.names().size();
  std::map<std::string, base::Status> failed{};
};

void Repository::Parts::Disk::load_all(const Done& done) {
  auto found = scan(Watch::Settle::kNo);
  if (!found) return done(found.error());
  Folders& folders = found->folders;
  const Configs configs = configure(folders);
  choose_wanted(folders, configs);
  auto order = in_order(folders, configs);
  parts_.wanted.insert(order.names().begin(), order.names().end());
  for (const auto& name : order.names()) table_.mark_loading(name);
  for (const auto& [name, folder] : folders)
    if (parts_.wanted.contains(name)) parts_.watch.took(name, folder.fingerprint());
  parts_.publish();
  if (parts_.options.control == Control::kPoll) next_poll_ = Clock::now() + parts_.options.poll_interval;
  if (order.names().empty()) return done({});
  auto start = std::make_shared<Start>(Start{std::move(folders), std::move(order), done});
  for (const auto& name : start->order.first()) begin_load(start, name);
}

bool Repository::Parts::Disk::is_of_startup(const std::string& name) const {
  const auto& names = parts_.options.startup;
  return std::any_of(names.begin(), names.end(), [&](const auto& n) { return n == name || n == "*"; });
}

// Leaves out what has mistakes: its load says which.
Repository::Parts::Disk::Configs Repository::Parts::Disk::configure(const Folders& folders) const {
  Configs configs;
  for (const auto& [name, folder] : folders)
    if (auto config = parts_.loader.configure(folder)) configs.emplace(name, std::move(*config));
  return configs;
}

void Repository::Parts::Disk::choose_wanted(const Folders& folders, const Configs& configs) {
  const bool some = parts_.options.control == Control::kExplicit;
  for (const auto& name : parts_.options.startup)
    if (some && name != "*") parts_.wanted.insert(name);
  for (const auto& [name, folder] : folders) {
    if (!some || is_of_startup(name)) parts_.wanted.insert(name);
    if (is_of_startup(name)) parts_.asked_for.insert(name);
    auto config = configs.find(name);
    table_.register_model(name, config == configs.end() ? nullptr : &config->second);
  }
}

// The models that are wanted, and the nodes of wanted pipelines; each pipeline behind its nodes.
LoadOrder Repository::Parts::Disk::in_order(const Folders& folders, const Configs& configs) const {
  return {parts_.wanted, [&](const std::string& name) {
            std::vector<std::string> nodes;
            if (auto config = configs.find(name); config != configs.end())
              for (const auto& node : config->second.dag.nodes)
                if (folders.count(node.model)) nodes.push_back(node.model);
            return nodes;
          }};
}

void Repository::Parts::Disk::begin_load(const std::shared_ptr<Start>& start, const std::string& name) {
  jobs_.add(name, LoadJobs::Needs::kPlace, [this, start, name] {
    auto status = load_at_start(*start, name);
    if (parts_.demand.on() && is_of_startup(name)) parts_.demand.want(name);
    parts_.publish();
    if (!status.ok()) start->failed[name] = base::failure(status.code, "model '" + name + "': " + status.text);
    for (const auto& next : start->order.ended(name)) begin_load(start, next);
    if (--start->left > 0) return;
    const auto& names = start->order.names();
    auto first = std::find_if(names.begin(), names.end(), [&](const auto& n) { return start->failed.contains(n); });
    start->done(parts_.options.strict && first != names.end() ? start->failed[*first] : base::Status());
  });
}

base::Status Repository::Parts::Disk::load_at_start(const Start& start, const std::string& name) {
  auto folder = start.folders.find(name);
  if (folder != start.folders.end())
    return parts_.wanted.contains(name) ? parts_.load_one(folder->second, nullptr)
                                        : base::Status();  // a request may have unloaded it
  auto status = parts_.not_found(name);
  table_.fail(name, status.text);
  return status;
}

base::Result<RootScan::Found> Repository::Parts::Disk::scan(Watch::Settle settle) {
  auto found = [&] {
    const RepositoryLock::Unlocked unlocked(parts_.lock);
    return roots_.scan(settle);
  }();
  if (found) table_.set_skipped(std::move(found->skipped));
  return found;
}

// The log has one line for each trouble, however often it is met.
void Repository::Parts::Disk::note_trouble(const base::Status& look) {
  {
    std::lock_guard held(trouble_mutex_);
    if (std::exchange(trouble_, look.text) == look.text) return;
  }
  if (!look.ok()) return base::log::warning("the model repository cannot be read", {{"reason", look.text}});
  base::log::info("the model repository can be read again");
}

std::string Repository::Parts::Disk::trouble() const {
  std::lock_guard held(trouble_mutex_);
  return trouble_;
}

// `done` is called when all that has changed has been loaded.
void Repository::Parts::Disk::rescan(Watch::Settle settle, const std::function<void()>& done) {
  auto found = scan(settle);
  note_trouble(found ? found->trouble : found.error());
  if (!found) return done();
  Folders& folders = found->folders;
  auto [changed, gone] = changes(folders, settle);
  if (changed.empty() && gone.empty()) {
    if (parts_.options.control == Control::kExplicit) parts_.publish();
    return done();
  }
  auto one = [this, done, left = std::make_shared<size_t>(changed.size() + gone.size())] {
    parts_.publish();
    if (--*left == 0) done();
  };
  for (const auto& name : changed) {
    parts_.watch.took(name, folders.at(name).fingerprint());
    jobs_.add(name, LoadJobs::Needs::kPlace, [this, folder = std::move(folders.at(name)), one] {
      if (parts_.wanted.contains(folder.name)) parts_.load_one(folder, nullptr);  // a request may have unloaded it
      one();
    });
  }
  for (const auto& name : gone) {
    parts_.watch.forget(name);
    jobs_.add(name, LoadJobs::Needs::kNothing, [this, name, one] {
      if (!parts_.queue->ends() && !table_.uploaded(name)) drop(name);
      one();
    });
  }
}

Watch::Changes Repository::Parts::Disk::changes(const Folders& folders, Watch::Settle settle) {
  Watch::Fingerprints fingerprints;
  for (const auto& [name, folder] : folders) {
    if (parts_.options.control != Control::kExplicit && !parts_.away.contains(name))
      parts_.wanted.insert(name);
    else if (!table_.knows(name))
      register_model(folder);
    if (parts_.wanted.count(name) && !table_.uploaded(name)) fingerprints[name] = folder.fingerprint();
  }
  return parts_.watch.compare(fingerprints, settle);
}

void Repository::Parts::Disk::register_model(const ModelFolder& folder) {
  const auto config = parts_.configure(folder);
  table_.register_model(folder.name, config ? &*config : nullptr);
}

void Repository::Parts::Disk::drop(const std::string& name) {
  parts_.watch.forget(name);
  table_.unload(name, ModelTable::Row::kDrop);
}

void Repository::Parts::Disk::work() {
  const auto now = Clock::now();
  if (now >= next_refresh_) refresh_postponed();
  refresh_some();
  if (now < next_poll_) return;
  next_poll_ = now + parts_.options.poll_interval;
  rescan(Watch::Settle::kYes, [] {});
}

// As many as can be loaded at once: others have their turn in between, and the end of the server does not wait for
// those that are left. A model that is being loaded, or has such a job already, keeps its name where it is: jobs that
// wait for a load that hangs would leave no others.
void Repository::Parts::Disk::refresh_some() {
  const auto may_begin = [this](const TaskQueue::Named& n) {
    return !jobs_.is_busy(n.second) && !refreshing_.contains(n.second);
  };
  while (refreshing_.size() < jobs_.places()) {
    TaskQueue::Named next;
    {
      std::lock_guard held(parts_.queue->mutex);
      auto& names = parts_.queue->refreshed;
      auto at = std::find_if(names.begin(), names.end(), may_begin);
      if (parts_.queue->stopping || at == names.end()) return;
      next = std::move(*at);
      names.erase(at), parts_.queue->waiting.erase(next);
    }
    refreshing_.insert(next.second);
    jobs_.add(next.second, LoadJobs::Needs::kPlace, [this, next] {
      if (!parts_.queue->ends()) refresh(next.first, next.second);
      refreshing_.erase(next.second);
    });
  }
}

void Repository::Parts::Disk::refresh_postponed() {
  next_refresh_ = Clock::time_point::max();
  {
    std::lock_guard held(parts_.queue->mutex);
    for (const auto& named : postponed_)
      if (parts_.queue->waiting.insert(named).second) parts_.queue->refreshed.push_back(named);
  }
  postponed_.clear();
}

void Repository::Parts::Disk::refresh(const std::string& root, const std::string& name) {
  auto folder = parts_.find(name);
  const bool gone = !folder && folder.error().code == base::Code::kNotFound;
  if (gone && !table_.uploaded(name)) parts_.wanted.erase(name), parts_.asked_for.erase(name), drop(name);
  if (!folder && !gone) {  // the folder could not be looked at, so it may be a new one
    postponed_.emplace(root, name);
    next_refresh_ = std::min(next_refresh_, Clock::now() + kRefreshRetry);
  }
  if (folder && folder->path == root + '/' + name) {
    parts_.wanted.insert(name);
    if (is_of_startup(name)) parts_.asked_for.insert(name);
    parts_.load_one(*folder, nullptr, ModelTable::Into::kMemory);
  }
  parts_.publish();
}

}  // namespace weir::models
