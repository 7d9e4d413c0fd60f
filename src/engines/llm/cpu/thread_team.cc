#include "engines/llm/cpu/thread_team.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <utility>

namespace weir::llm {
namespace {

// About 20 us of looking before a worker sleeps: longer than the gaps inside a step.
constexpr int kSpinPolls = 4000;

void relax() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#endif
}

// As well as can be: a step is right on any core.
void keep_to(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

ThreadTeam::ThreadTeam(uint32_t threads, std::vector<int> cores) : cores_(std::move(cores)) {
  try {
    for (uint32_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { serve(i); });
  } catch (...) {  // no more threads: those that run must not outlive this
    stop();
    throw;
  }
}

ThreadTeam::~ThreadTeam() { stop(); }

void ThreadTeam::stop() {
  stop_.store(true, std::memory_order_release);
  job_.fetch_add(1, std::memory_order_seq_cst);
  job_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadTeam::join() { keep_to(cores_); }

void ThreadTeam::share(uint32_t count, uint32_t grain, void* data, Call call) {
  count_ = count, grain_ = std::max(1u, grain), data_ = data, call_ = call;
  pieces_ = (count_ + grain_ - 1) / grain_;
  left_.store(pieces_, std::memory_order_relaxed);
  uint32_t job = job_.load(std::memory_order_relaxed) + 1;
  ticket_.store(uint64_t(job) << 32 | pieces_, std::memory_order_release);
  job_.store(job, std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst) > 0) job_.notify_all();
  work(0);
  for (int polls = 0; left_.load(std::memory_order_acquire) > 0; ++polls) {
    relax();
    if (polls > kSpinPolls) std::this_thread::yield();  // a worker has lost its core
  }
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

// On whichever thread; what it throws is the caller's of run(), once all pieces are done.
void ThreadTeam::piece(uint32_t from, uint32_t thread) {
  try {
    call_(data_, from, std::min(count_, from + grain_), thread);
  } catch (...) {
    std::lock_guard lock(thrown_mutex_);
    if (!thrown_) thrown_ = std::current_exception();
  }
}

void ThreadTeam::work(uint32_t thread) {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (uint32_t(ticket) > 0) {
    if (!ticket_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acquire)) continue;
    uint32_t from = (pieces_ - uint32_t(ticket)) * grain_;
    piece(from, thread);
    left_.fetch_sub(1, std::memory_order_release);
    base::yield_to_loops();
    ticket = ticket_.load(std::memory_order_acquire);
  }
}

uint32_t ThreadTeam::await_job(uint32_t done) {
  for (int polls = 0; polls < kSpinPolls; ++polls) {
    uint32_t now = job_.load(std::memory_order_acquire);
    if (now != done) return now;
    relax();
  }
  asleep_.fetch_add(1, std::memory_order_seq_cst);
  job_.wait(done, std::memory_order_seq_cst);
  asleep_.fetch_sub(1, std::memory_order_relaxed);
  return job_.load(std::memory_order_acquire);
}

void ThreadTeam::serve(uint32_t thread) {
  pthread_setname_np(pthread_self(), "weir-llm");
  keep_to(cores_);
  for (uint32_t done = 0;;) {
    done = await_job(done);
    if (stop_.load(std::memory_order_acquire)) return;
    work(thread);
  }
}

uint32_t usual_threads() {
  uint32_t cores = std::max(1u, std::thread::hardware_concurrency());
  return cores <= 2 ? cores : cores - 1;
}

std::vector<int> cores_beside(std::span<const int> allowed, uint32_t pinned_shards) {
  if (pinned_shards == 0 || pinned_shards >= allowed.size()) return {};
  auto rest = allowed.subspan(pinned_shards);
  return {rest.begin(), rest.end()};
}

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

}  // namespace weir::llm
