#include "models/repository_parts.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "base/encoding.h"
#include "base/log.h"
#include "models/repository_disk.h"
#include "models/repository_requests.h"

namespace weir::models {
namespace {

// How often the end of the last Call inside a replaced version is looked for; shards have no way to tell.
constexpr auto kRetireLook = std::chrono::milliseconds(5);
// How long Calls inside a version that makes way for the next one have to end.
constexpr auto kMostWayTime = std::chrono::seconds(30);
// A load that takes longer lets another begin beside it. Long enough for most weights; for those that take longer it is
// two loads at once where there should be one.
constexpr auto kLoadPatience = std::chrono::minutes(2);
// The longest wait between two tries to load what could not be loaded yet.
constexpr auto kLongestRetry = std::chrono::seconds(5);

// With kDemand what is in memory for a look at it is counted nowhere: it is one model, or two where the first takes
// longer than kLoadPatience.
uint32_t load_threads(const RepositoryOptions& options) {
  if (options.control == Control::kDemand) return 1;
  return options.load_threads > 0 ? options.load_threads : std::clamp(std::thread::hardware_concurrency(), 2U, 4U);
}

}  // namespace

Repository::Parts::Parts(RepositoryOptions o, std::map<std::string, EngineMaker> e, base::SlabSource& s, Publish p)
    : options(std::move(o)),
      engines(std::move(e)),
      slabs(s),
      jobs(lock, queue, load_threads(options), kLoadPatience),
      loader(options, engines, slabs,
             {[this, queue = queue](Loader::Broken broken) {
                queue->post([this, broken = std::move(broken)] { broke(broken); });
              },
              [queue = queue] { return !queue->ends(); }, [this](const std::string& of) { return jobs.take_turn(of); },
              [this] { return jobs.step_aside(); }}),
      publisher(table, queue, options.default_model, std::move(p)),
      demand(options, table, queue,
             {[this](const std::string& name, const Demand::Done& done) {
                jobs.add(name, LoadJobs::Needs::kThread, [this, name, done] { done(load_wanted(name)); });
              },
              [this](const std::string& name) { return jobs.is_busy(name); }, [this] { publish(); }}),
      requests(std::make_unique<Requests>(*this)),
      disk(std::make_unique<Disk>(*this)) {}

Repository::Parts::~Parts() = default;

void Repository::Parts::run() {
  auto until = Clock::now();
  uint64_t awaited = UINT64_MAX;
  for (bool ended_now = false; !ended_now;) {
    std::deque<std::function<void()>> tasks;
    bool ends;
    {
      std::unique_lock held(queue->mutex);
      auto ready = [&] { return queue->poked || !queue->tasks.empty() || queue->settled >= awaited; };
      if (until == Clock::time_point::max())
        queue->changed.wait(held, ready);
      else
        queue->changed.wait_until(held, until, ready);
      tasks.swap(queue->tasks);
      queue->poked = false;
      ends = queue->stopping;
    }
    std::vector<std::function<void()>> told;
    {
      std::lock_guard held(lock);
      for (auto& task : tasks) task();
      ends ? jobs.run_rest() : work();
      ended_now = ends && jobs.idle();
      if (ended_now) demand.end();
      told = ended_now ? publisher.take_all() : publisher.take_settled();
      until = next_look(), awaited = publisher.awaited();
    }
    for (const auto& tell : told) tell();
  }
  ended.set_value();
}

void Repository::Parts::work() {
  destroy_unused();
  demand.step();
  for (const auto& name : restarts.due(Clock::now()))
    jobs.add(name, LoadJobs::Needs::kPlace, [this, name] { revive(name); });
  disk->work();
  jobs.start_ready();
}

RestartBackoff::Clock::time_point Repository::Parts::next_look() const {
  const auto until = std::min({disk->next_look(), restarts.next(), jobs.next_look()});
  return publisher.has_retired() && !destroying ? std::min(until, Clock::now() + kRetireLook) : until;
}

void Repository::Parts::publish() {
  table.relink(loader);
  publisher.publish();
}

// By one thread at a time, so that a hundred models that are unloaded together do not start a hundred threads.
void Repository::Parts::destroy_unused() {
  if (destroying) return;
  auto unused = std::make_shared<std::vector<Retired>>(publisher.take_unused());
  if (unused->empty()) return;
  destroying = true;
  jobs.add_beside([this, unused] {
    for (auto& what : *unused) {
      {
        const RepositoryLock::Unlocked unlocked(lock);
        what.served.reset();
      }
      publisher.destroyed(what);
      lock.notify_all();
    }
    destroying = false;
    publish();
  });
}

// The engine of a version may break before its load has ended: then it is reported at that end.
void Repository::Parts::broke(const Loader::Broken& broken) {
  if (!report_broken(broken) && jobs.is_busy(broken.model)) broken_early.push_back(broken);
}

bool Repository::Parts::report_broken(const Loader::Broken& broken) {
  const bool anew = comes_back(broken.model);
  if (!table.mark_failed(broken, anew ? ModelTable::Next::kLoadAnew : ModelTable::Next::kNothing)) return false;
  publish();
  if (anew) restarts.broke(broken.model, Clock::now());
  return true;
}

// A model whose configuration came with a load request is not loaded anew: whoever sent it has to send it again.
bool Repository::Parts::comes_back(const std::string& name) const {
  return wanted.count(name) && !table.uploaded(name);
}

void Repository::Parts::revive(const std::string& name) {
  if (queue->ends() || !comes_back(name)) return;
  auto folder = find(name);
  if (!folder) {
    if (folder.error().code != base::Code::kNotFound) restarts.failed(name, Clock::now(), kLongestRetry);
    return;
  }
  table.mark_loading(name);
  publish();
  auto status = load_one(*folder, nullptr);
  if (!status.ok() && !base::worth_trying_again(status)) restarts.failed(name, Clock::now());
  publish();
}

// With kDemand what is loaded beside the requests for models makes room for itself afterwards.
base::Status Repository::Parts::load_one(const ModelFolder& folder, std::unique_ptr<Upload> upload) {
  const bool waits = demand.on() && (!table.serves(folder.name) || demand.is_missing(folder.name));
  auto status = load_one(folder, std::move(upload), waits ? ModelTable::Into::kReserve : ModelTable::Into::kMemory);
  if (demand.on()) (void)demand.trim();
  return status;
}

base::Status Repository::Parts::load_one(const ModelFolder& folder, std::unique_ptr<Upload> upload,
                                         ModelTable::Into into) {
  if (queue->ends()) return is_ending();
  watch.took(folder.name, folder.fingerprint());
  auto status = table.load(folder, loader, upload, into);
  if (!status.ok() && table.make_way(folder.name)) {
    publish();
    wait_for_retired(folder.name);
    status = table.load(folder, loader, upload, into);
  }
  std::vector<Loader::Broken> early;
  std::erase_if(broken_early, [&](const auto& broken) {
    if (broken.model == folder.name) early.push_back(broken);
    return broken.model == folder.name;
  });
  for (const auto& broken : early) report_broken(broken);
  if (!status.ok()) watch.failed(folder.name);
  if (!status.ok() && base::worth_trying_again(status) && comes_back(folder.name))
    restarts.failed(folder.name, Clock::now(), kLongestRetry);
  return status;
}

// The lock is given away meanwhile.
void Repository::Parts::wait_for_retired(const std::string& name) {
  const auto until = Clock::now() + kMostWayTime;
  while (publisher.has_retired(name) && Clock::now() < until && !queue->ends()) lock.wait_until(until);
}

// Jobs of the model that were there before this one have ended: they may have unloaded it, or brought it in.
base::Status Repository::Parts::load_wanted(const std::string& name) {
  if (queue->ends()) return is_ending();
  if (away.contains(name)) return base::failure(base::Code::kUnavailable, "the model was unloaded");
  if (!demand.is_missing(name) && table.serves(name)) return {};
  auto folder = find(name);
  if (folder) return load_one(*folder, nullptr, ModelTable::Into::kMemory);
  const auto why = not_there(name, folder.error());
  base::log::warning("a model that a request asks for is not loaded", {{"model", name}, {"reason", why.text}});
  return why;
}

base::Result<ModelFolder> Repository::Parts::find(const std::string& name) {
  const RepositoryLock::Unlocked unlocked(lock);
  return find_model_folder(options.roots, name);
}

base::Result<ModelConfig> Repository::Parts::configure(const ModelFolder& folder) {
  const RepositoryLock::Unlocked unlocked(lock);
  return loader.configure(folder);
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

}  // namespace weir::models
