#include "jobs/store.h"

#include <pthread.h>

#include <chrono>
#include <utility>

#include "base/attempt.h"
#include "base/log.h"

namespace weir::jobs {
namespace {

constexpr auto kTick = std::chrono::seconds(1);  // what waits for a time of day is looked after so often

base::WallTime wall() { return std::chrono::system_clock::now(); }

}  // namespace

Store::Store(std::string folder, Limits limits, std::string why_off)
    : folder_(std::move(folder)),
      limits_(limits),
      available_(base::failure(base::Code::kUnimplemented, std::move(why_off))) {}

Store::~Store() { stop(); }

base::Status Store::open() {
  if (folder_.empty()) return {};
  auto opened = open_database(folder_, limits_.disk);
  if (!opened && opened.error().code == base::Code::kUnimplemented) {
    available_ = opened.error();
    return {};
  }
  if (!opened) return opened.error();
  database_ = std::move(*opened);
  available_ = {};
  return {};
}

void Store::attach(base::ShardId shard, Receiver receiver) {
  if (receivers_.size() <= size_t(shard)) receivers_.resize(size_t(shard) + 1), wanted_.resize(size_t(shard) + 1);
  receivers_[size_t(shard)] = std::move(receiver);
}

void Store::start() {
  if (!available_.ok() || thread_.joinable()) return;
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "weir-jobs");
}

void Store::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool Store::post(std::function<void(Storage&)> work, Admission admission) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || (admission == Admission::kAsked && queue_.size() >= kMostWaiting)) return false;
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
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
  for (const Receiver& receiver : receivers_) receiver.cancel(batch);
}

// Work comes first, but what goes on by itself has a slice after each piece of it.
void Store::run() {
  bool more = true;
  for (;;) {
    std::function<void(Storage&)> work;
    {
      std::unique_lock lock(mutex_);
      if (!more && !stopping_ && queue_.empty() && !look_) wake_.wait_for(lock, kTick);
      look_ = false;
      if (stopping_ && queue_.empty()) return;
      if (!queue_.empty()) {
        work = std::move(queue_.front());
        queue_.pop_front();
      }
    }
    if (work) work_on(work);
    work = nullptr;  // what it holds goes outside of the lock
    more = look_after();
    more = hand_out() || more;
    std::lock_guard lock(mutex_);
    more = more || !queue_.empty();
  }
}

void Store::work_on(std::function<void(Storage&)>& work) {
  (void)base::attempt("the journal", [&] { work(database_->storage()); });
}

bool Store::look_after() {
  bool more = false;
  for (Duty* duty : duties_) {
    base::Status status;
    auto thrown = base::attempt("the journal", [&] {
      auto step = duty->step(database_->storage(), wall());
      if (step) more = *step || more;
      if (!step) status = step.error();
    });
    if (!thrown.ok()) status = thrown;
    if (!status.ok() && shown_.errors.fetch_add(1) % 16 == 0)
      base::log::error("the journal cannot be worked on", {{"reason", status.text}, {"setting", "jobs.path"}});
  }
  if (auto used = database_->used()) shown_.bytes = *used;
  return more;
}

// Shards take turns.
bool Store::hand_out() {
  bool more = false;
  for (size_t i = 0; i < receivers_.size(); ++i) {
    const size_t shard = next_++ % receivers_.size();
    {
      std::lock_guard lock(mutex_);
      if (wanted_[shard] == 0 || stopping_) continue;
    }
    auto jobs = database_->storage().journal.claim(1, wall());
    if (!jobs || jobs->empty()) return false;
    {
      std::lock_guard lock(mutex_);
      --wanted_[shard];
      more = more || wanted_[shard] > 0;
    }
    shown_.claimed.fetch_add(1);
    receivers_[shard].run(std::move(jobs->front()));
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
    family("weir_jobs_disk_bytes", "gauge", "Bytes of the journal's file that hold records.");
    line("weir_jobs_disk_bytes", shown_.bytes.load());
    family("weir_jobs_disk_limit_bytes", "gauge", "The most that it may hold (jobs.disk).");
    line("weir_jobs_disk_limit_bytes", limits_.disk);
  });
}

}  // namespace weir::jobs
