#include "models/load_jobs.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace weir::models {
namespace {

// Threads that load, or wait for others that do, past which no further one is started for what waits for a place; and
// past which none is for what a model asks for while it is loaded.
constexpr size_t kMostThreads = 64, kMostBeside = 192;

}  // namespace

LoadJobs::~LoadJobs() { join_ended(); }

void LoadJobs::add(std::string model, Needs needs, Work work) {
  waiting_[model].push_back({needs, std::move(work)});
  list(model);
  queue_->poke();
}

void LoadJobs::add_beside(Work work) {
  beside_.push_back(std::move(work));
  queue_->poke();
}

// A model may be listed twice, or while it is busy: start_ready() looks again.
void LoadJobs::list(const std::string& model) {
  auto found = waiting_.find(model);
  if (found == waiting_.end() || busy_.contains(model)) return;
  (found->second.front().needs == Needs::kPlace ? for_place_ : at_once_).push_back(model);
}

std::optional<LoadJobs::Job> LoadJobs::take(const std::string& model) {
  auto found = waiting_.find(model);
  if (found == waiting_.end() || busy_.contains(model)) return std::nullopt;
  Job job = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) waiting_.erase(found);
  return job;
}

void LoadJobs::start_ready() {
  join_ended();
  free_places();
  while (!beside_.empty() && threads_.size() < kMostBeside) {
    Work work = std::move(beside_.front());
    beside_.pop_front();
    begin_thread({}, false, std::move(work));
  }
  while (!at_once_.empty() || (!for_place_.empty() && taken_ < places_ && threads_.size() < kMostThreads)) {
    auto& from = at_once_.empty() ? for_place_ : at_once_;
    const bool has_place = at_once_.empty();
    const std::string model = std::move(from.front());
    from.pop_front();
    auto job = take(model);
    if (!job) continue;
    if (job->needs == Needs::kPlace && !has_place) {
      waiting_[model].push_front(std::move(*job));
      for_place_.push_back(model);
      continue;
    }
    begin(model, std::move(*job));
  }
}

LoadJobs::Clock::time_point LoadJobs::next_look() const {
  auto first = Clock::time_point::max();
  if (!may_free_place()) return first;
  for (const auto& [number, running] : threads_)
    if (running.has_place) first = std::min(first, running.since + patience_);
  return first;
}

void LoadJobs::free_places() {
  const auto now = Clock::now();
  for (auto& [number, running] : threads_) {
    if (!may_free_place()) return;
    if (!running.has_place || now < running.since + patience_) continue;
    running.has_place = false, --taken_;
    running.lost_place = true, ++lost_;
    base::log::warning("a load takes long: others begin beside it", {{"model", running.model}});
  }
}

void LoadJobs::begin(const std::string& model, Job job) {
  if (job.needs == Needs::kNothing) {
    job.work();
    return list(model);
  }
  busy_.add(model);
  begin_thread(model, job.needs == Needs::kPlace, std::move(job.work));
}

// Where there is no thread to be had the caller's does the work, and all else waits for it.
void LoadJobs::begin_thread(std::string model, bool needs_place, Work work) {
  const uint64_t number = ++last_number_;
  auto& running = threads_[number];
  running.model = std::move(model), running.has_place = needs_place, running.since = Clock::now();
  if (needs_place) ++taken_;
  const auto shared = std::make_shared<const Work>(std::move(work));
  try {
    running.thread = std::thread([this, number, shared] {
      ::pthread_setname_np(::pthread_self(), "load");
      lock_.lock();
      run(number, *shared);
      lock_.unlock();
    });
  } catch (const std::system_error&) {
    run(number, *shared);
  }
}

void LoadJobs::run(uint64_t number, const Work& work) {
  work();
  end(number);
}

void LoadJobs::end(uint64_t number) {
  auto& running = threads_.at(number);
  if (std::exchange(running.has_place, false)) --taken_;
  if (std::exchange(running.lost_place, false)) --lost_;
  ended_.push_back(number);
  if (!running.model.empty()) free_model(running.model);
  lock_.notify_all();
  queue_->poke();
}

// Their last act is to give the lock away, which the caller holds: it waits for nothing.
void LoadJobs::join_ended() {
  for (const uint64_t number : std::exchange(ended_, {})) {
    auto running = threads_.extract(number);
    if (running.mapped().thread.joinable()) running.mapped().thread.join();
  }
}

void LoadJobs::run_rest() {
  lock_.notify_all();
  join_ended();
  for (auto& [model, jobs] : std::exchange(waiting_, {}))
    for (auto& job : jobs) job.work();
  for (auto& work : std::exchange(beside_, {})) work();
  at_once_.clear(), for_place_.clear();
}

void LoadJobs::free_model(const std::string& model) {
  busy_.remove(model);
  list(model);
}

bool LoadJobs::claim(const std::string& model, const std::string& waiter) {
  return (waiter.empty() || may_wait(waiter, model)) && claim_when_free(model, waiter);
}

// The waiting thread has neither a place nor the model, and gets both at once: a load that holds one of them and waits
// for the other may be what the one with the other waits for.
bool LoadJobs::claim_when_free(const std::string& model, const std::string& waiter) {
  const bool gave = busy_.contains(model) && give_place();
  bool claimed = false;
  while (!queue_->ends()) {
    claimed = !(gave && taken_ >= places_) && busy_.add(model);
    if (claimed) break;
    lock_.wait();
  }
  if (gave) take_place();
  if (!claimed) busy_.end_wait(waiter, model);
  return claimed;
}

void LoadJobs::release(const std::string& model, const std::string& waiter) {
  busy_.end_wait(waiter, model);
  free_model(model);
  lock_.notify_all();
  queue_->poke();
}

LoadJobs::Running* LoadJobs::current() {
  auto found = std::find_if(threads_.begin(), threads_.end(), [](const auto& running) {
    return running.second.thread.get_id() == std::this_thread::get_id();
  });
  return found == threads_.end() ? nullptr : &found->second;
}

// False: the calling thread has none.
bool LoadJobs::give_place() {
  Running* const running = current();
  if (!running || !std::exchange(running->has_place, false)) return false;
  --taken_;
  lock_.notify_all();
  queue_->poke();
  return true;
}

void LoadJobs::take_place() {
  Running& running = *current();
  running.has_place = true, running.since = Clock::now();
  ++taken_;
}

// Made before there is something to give back, so that what throws has taken nothing, and is not undone under the lock.
struct LoadJobs::Turn {
  explicit Turn(const std::string& turn_of) : of(turn_of) {}
  Turn(const Turn&) = delete;
  ~Turn() {
    if (!jobs) return;
    std::lock_guard again(jobs->lock_);
    jobs->turns_.erase(of);
    jobs->lock_.notify_all();
  }
  const std::string of;
  LoadJobs* jobs = nullptr;  // whose turn it is; null: none
};

struct LoadJobs::Aside {
  Aside() = default;
  Aside(const Aside&) = delete;
  ~Aside() {
    if (!jobs) return;
    std::lock_guard again(jobs->lock_);
    jobs->take_place();
  }
  LoadJobs* jobs = nullptr;  // null: it keeps its place
};

// The caller loads a model, for which others that have a place may wait: it takes its place back whether one is free or
// not. So there may be one load more for each turn.
std::shared_ptr<void> LoadJobs::take_turn(const std::string& of) {
  const auto turn = std::make_shared<Turn>(of);
  std::lock_guard held(lock_);
  const bool gave = turns_.contains(of) && give_place();
  while (turns_.contains(of) && !queue_->ends()) lock_.wait();
  if (gave) take_place();
  if (queue_->ends()) return nullptr;
  turns_.insert(of);
  turn->jobs = this;
  return turn;
}

// It takes its place back whether one is free or not, as above.
std::shared_ptr<void> LoadJobs::step_aside() {
  const auto aside = std::make_shared<Aside>();
  std::lock_guard held(lock_);
  if (!give_place()) return nullptr;
  aside->jobs = this;
  return aside;
}

}  // namespace weir::models
