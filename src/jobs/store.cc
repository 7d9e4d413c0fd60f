#include "jobs/store.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/attempt.h"
#include "base/clock.h"
#include "base/log.h"
#include "jobs/log.h"
#include "jobs/shared_journal.h"

namespace weir::jobs {
namespace {

constexpr auto kTellAgain = std::chrono::seconds(10);
constexpr auto kLastWrite = std::chrono::seconds(1);  // at the end, for a disk that stands
constexpr auto kTick = std::chrono::seconds(1);       // what waits for a time of day is looked after so often

base::WallTime wall() { return std::chrono::system_clock::now(); }

}  // namespace

Store::Store(std::string folder, Limits limits, std::string why_off)
    : folder_(std::move(folder)),
      limits_(limits),
      available_(base::failure(base::Code::kUnimplemented, std::move(why_off))) {
  unhanded_.reserve(kMostUnhanded);
}

Store::~Store() { stop(); }

void Store::share(Log& log, std::string name) { log_ = &log, name_ = std::move(name); }

void Store::set_nodes(std::set<std::string> names) {
  if (shared_) shared_->set_nodes(std::move(names));
  poke();
}

void Store::poke() {
  {
    std::lock_guard lock(mutex_);
    look_ = true;
  }
  wake_.notify_one();
}

base::Status Store::open() {
  if (folder_.empty()) return {};
  auto opened = log_ ? open_database(folder_, UINT64_MAX, Whose::kAllNodes)
                     : open_database(folder_, limits_.disk, Whose::kThisNode);
  if (!opened && opened.error().code == base::Code::kUnimplemented) {
    available_ = opened.error();
    return {};
  }
  if (!opened) return opened.error();
  database_ = std::move(*opened);
  available_ = {};
  if (log_)
    shared_ = std::make_unique<SharedJournal>(
        database_->replica(), *log_, name_,
        SharedJournal::Bounds{limits_.disk, std::max(limits_.max_line, limits_.max_result)},
        [this](const std::string& batch) { cancel_here(batch); });
  return {};
}

void Store::attach(base::ShardId shard, Receiver receiver) {
  if (receivers_.size() <= size_t(shard)) receivers_.resize(size_t(shard) + 1), wanted_.resize(size_t(shard) + 1);
  receivers_[size_t(shard)] = std::move(receiver);
}

void Store::start() {
  if (!available_.ok() || thread_.joinable()) return;
  thread_ = std::thread([this] {
    run();
    std::lock_guard lock(mutex_);
    over_ = true;
    ended_.notify_all();
  });
  pthread_setname_np(thread_.native_handle(), "weir-jobs");
}

void Store::stop(base::Duration most) {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  if (shared_) shared_->stop();
  wake_.notify_one();
  if (!thread_.joinable()) return;
  const auto ended_within = [this](base::Duration time) {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, time, [this] { return over_; });
  };
  const bool ended = ended_within(most);
  if (!ended && log_) log_->abandon();
  if (!ended && !ended_within(kLastWork)) {
    std::deque<Work> lost;
    {
      std::lock_guard lock(mutex_);
      lost.swap(queue_);
    }
    const bool stands = !ended_within(kLastWrite);
    base::log::error("the journal's disk does not take what waits for it: the server ends without that",
                     {{"lost", lost.size() + stands}, {"stands", stands}, {"setting", "jobs.path"}});
    if (stands) (void)base::log::flush(kLastWrite), std::_Exit(1);  // its thread cannot be ended
  }
  thread_.join();
}

bool Store::post(std::function<void(Storage&)> run, Admission admission,
                 std::function<void(const base::Status&)> then) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || (admission == Admission::kAsked && queue_.size() >= kMostWaiting)) return false;
    queue_.push_back(
        {[run = std::move(run)](Storage& s) { return run(s), base::Status(); }, std::move(then), admission});
  }
  wake_.notify_one();
  return true;
}

void Store::write(std::function<base::Status(Storage&)> run, std::function<void(const base::Status&)> then) {
  bool fits = false;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    fits = then || queue_.size() < kMostUntold;
    if (fits) queue_.push_back({std::move(run), std::move(then), Admission::kGranted});
  }
  fits ? wake_.notify_one() : shown_.note_left_out(kMostUntold);
}

void Store::want(base::ShardId shard, uint32_t jobs) {
  {
    std::lock_guard lock(mutex_);
    wanted_[size_t(shard)] += jobs;
    look_ = true;
  }
  wake_.notify_one();
}

void Store::cancel(const std::string& batch) {
  if (!shared_) return cancel_here(batch);
  (void)post([batch](Storage& s) { SharedJournal::end_everywhere(s, batch); }, Admission::kGranted);
}

std::string Store::detail() const { return shared_ ? shared_->detail() : std::string(); }

void Store::cancel_here(const std::string& batch) {
  for (const Receiver& receiver : receivers_) receiver.cancel(batch);
}

// Work comes first, but what goes on by itself has a slice after each piece of it.
void Store::run() {
  bool more = true;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const bool soon = shared_ && shared_->waits();
      if (!more && !stopping_ && queue_.empty() && !look_)
        wake_.wait_for(lock, soon ? SharedJournal::kRetry : base::Duration(kTick));
      look_ = false;
      if (stopping_ && queue_.empty()) break;
    }
    more = false;
    // The work that was taken ends outside of the lock, and so goes there.
    (void)base::attempt("the journal", [&] { work_on(take_work()); });
    if (!again_.empty() && base::steady_now() >= again_at_)
      (void)base::attempt("the journal", [&] { work_on(std::exchange(again_, {})); });
    (void)base::attempt("the journal", [&] { more = look_after(); });
    (void)base::attempt("the journal", [&] { more = hand_out() || more; });
    {
      std::lock_guard lock(mutex_);
      more = more || !queue_.empty();
    }
    if (more || !again_.empty() || (shared_ && shared_->waits())) continue;
    (void)base::attempt("the journal", [&] { shown_.note_all_written(); });
  }
  if (shared_ && shared_->waits()) work_on({});
  if (!again_.empty()) (void)base::attempt("the journal", [&] { work_on(std::exchange(again_, {})); });
}

std::deque<Work> Store::take_work() {
  const size_t most = shared_ ? SharedJournal::kMostAtOnce : 1;
  std::deque<Work> out;
  std::lock_guard lock(mutex_);
  while (!queue_.empty() && out.size() < most) {
    // Where there is no memory for more, the rest stays.
    if (!base::attempt("the journal", [&] { out.push_back(std::move(queue_.front())); }).ok()) break;
    queue_.pop_front();
  }
  return out;
}

void Store::work_on(std::deque<Work> works) {
  if (shared_) return (void)base::attempt("the journal", [&] { shared_->perform(std::move(works)); });
  for (Work& work : works) {
    base::Status status;
    const auto thrown = base::attempt("the journal", [&] { status = work.run(database_->storage()); });
    if (!thrown.ok()) status = thrown;
    const bool again = !status.ok() && status.code != base::Code::kInternal;
    if (again && work.admission == Admission::kGranted) {
      shown_.note(status);
      again_at_ = base::steady_now() + kTick;
      if (!work.then && again_.size() >= kMostWaiting) {
        shown_.note_left_out(kMostWaiting);
        continue;
      }
      if (base::attempt("the journal", [&] { again_.push_back(std::move(work)); }).ok()) continue;
    }
    if (work.then) (void)base::attempt("the journal", [&] { work.then(status); });
  }
}

bool Store::Shown::may_tell() {
  const base::Time now = base::steady_now();
  base::Time told = told_.load();
  if (told != base::Time::min() && now - told < kTellAgain) return false;
  return told_.compare_exchange_strong(told, now);
}

void Store::Shown::note(const base::Status& error) {
  errors.fetch_add(1);
  if (may_tell())
    base::log::error("the journal cannot be worked on", {{"reason", error.text}, {"setting", "jobs.path"}});
}

void Store::Shown::note_asked(const base::Status& error) {
  if (error == disk_is_full() || error == file_is_gone()) note(error);
}

void Store::Shown::note_late() {
  errors.fetch_add(1);
  if (may_tell())
    base::log::error("the journal is late: clients are told to try again",
                     {{"reason", "its disk, or the NATS server, does not answer"}, {"setting", "jobs.path"}});
}

void Store::Shown::note_left_out(size_t waiting) {
  left_out.fetch_add(1);
  if (leaving_out_.exchange(true)) return;
  base::log::warning("too much waits for the journal: removals and ends are left out",
                     {{"waiting", waiting}, {"setting", "jobs.path"}});
}

void Store::Shown::note_all_written() {
  if (leaving_out_.exchange(false))
    base::log::info("what had waited for the journal is in it", {{"left_out_in_all", left_out.load()}});
}

bool Store::look_after() {
  bool more = false;
  if (shared_) more = shared_->look_after(duties_, wall(), [this](const auto& status) { shown_.note(status); });
  for (size_t i = 0; !shared_ && i < duties_.size(); ++i) {
    base::Status status;
    auto thrown = base::attempt("the journal", [&] {
      auto step = duties_[i]->step(database_->storage(), wall());
      if (step) more = *step || more;
      if (!step) status = step.error();
    });
    if (!thrown.ok()) status = thrown;
    if (!status.ok()) shown_.note(status);
  }
  if (auto used = database_->used()) shown_.bytes = *used;
  return more;
}

base::Result<std::optional<Job>> Store::claim() {
  if (!shared_) {
    auto jobs = database_->storage().journal.claim(1, wall());
    if (!jobs) return jobs.error();
    return jobs->empty() ? std::optional<Job>() : std::optional(std::move(jobs->front()));
  }
  uint32_t all = 0;
  {
    std::lock_guard lock(mutex_);
    for (uint32_t wanted : wanted_) all += wanted;
  }
  return shared_->claim(std::min<size_t>(all, SharedJournal::kMostAtOnce), wall());
}

// False: for want of memory nobody has got it, and it goes back.
bool Store::hand_over(size_t shard, Job& job) {
  std::optional<JobId> id;
  const auto status = base::attempt("a job", [&] {
    id = job.id;
    receivers_[shard].run(std::move(job));
  });
  if (!status.ok()) unhanded_.push_back(id ? *std::move(id) : std::move(job.id));  // room for it is there
  return status.ok();
}

void Store::give_back() {
  while (!unhanded_.empty()) {
    const auto status = base::attempt("a job", [&] {
      write([id = unhanded_.back(), when = wall() + kTick](Storage& s) { return s.journal.release(id, when); });
    });
    if (!status.ok()) return;
    unhanded_.pop_back();
  }
}

// Shards take turns.
bool Store::hand_out() {
  bool more = false;
  give_back();
  if (unhanded_.size() == kMostUnhanded) return false;
  for (size_t i = 0; i < receivers_.size(); ++i) {
    const size_t shard = next_++ % receivers_.size();
    {
      std::lock_guard lock(mutex_);
      if (wanted_[shard] == 0 || stopping_) continue;
    }
    auto job = claim();
    if (!job || !*job) return false;
    if (!hand_over(shard, **job)) return give_back(), false;
    {
      std::lock_guard lock(mutex_);
      --wanted_[shard];
      more = more || wanted_[shard] > 0;
    }
    shown_.claimed.fetch_add(1);
  }
  return more;
}

void Store::count_in(base::Metrics& metrics) {
  metrics.collect([this](std::string& out) {
    auto family = [&](const char* name, const char* type, const char* help) {
      ((out += "# HELP ") += name) += std::string(" ") + help + "\n# TYPE " + name + " " + type + "\n";
    };
    auto line = [&](const std::string& series, uint64_t value) { out += series + " " + std::to_string(value) + "\n"; };
    if (!available_.ok()) return;
    family("weir_jobs_total", "counter", "Jobs that came to their end, by outcome.");
    line("weir_jobs_total{outcome=\"ok\"}", shown_.finished.load());
    line("weir_jobs_total{outcome=\"failed\"}", shown_.failed.load());
    family("weir_jobs_claimed_total", "counter", "Jobs that were begun, also again.");
    line("weir_jobs_claimed_total", shown_.claimed.load());
    family("weir_jobs_errors_total", "counter", "Steps of the journal that failed.");
    line("weir_jobs_errors_total", shown_.errors.load());
    family("weir_jobs_left_out_total", "counter", "Writes that nobody waits for and for which too much waited.");
    line("weir_jobs_left_out_total", shown_.left_out.load() + (shared_ ? shared_->left_out() : 0));
    family("weir_jobs_disk_bytes", "gauge", "Bytes of the journal's file that hold records.");
    line("weir_jobs_disk_bytes", shown_.bytes.load());
    family("weir_jobs_disk_limit_bytes", "gauge", "The most that it may hold (jobs.disk).");
    line("weir_jobs_disk_limit_bytes", limits_.disk);
    if (shared_) shared_->write_families(out);
  });
}

}  // namespace weir::jobs
