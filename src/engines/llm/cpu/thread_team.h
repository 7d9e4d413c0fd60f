// ThreadTeam: threads that share the work of one step. They are there for the life of the model; between steps they
// sleep.
//
// The thread that calls run() works, too. Inside a step the others wait for the next piece of work with open eyes for
// a few microseconds, since there are hundreds of pieces in a step; then they sleep. Between two pieces a thread gives
// its core to a shard that waits for it (base/loop_sleep.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/loop_sleep.h"

namespace weir::llm {

class ThreadTeam {
 public:
  // `threads`: at least 1, the caller's. `cores`: where its threads may run; empty = anywhere.
  explicit ThreadTeam(uint32_t threads, std::vector<int> cores = {});
  ~ThreadTeam();
  // The calling thread, which is going to call run() for good, keeps to those cores, too.
  void join();

  uint32_t size() const { return uint32_t(workers_.size()) + 1; }

  // Calls each(from, to, thread) for pieces of [0, count), `grain` at most each, on all threads, and returns when all
  // are done. One caller at a time. Which thread gets which piece is left to chance: results must not depend on it.
  // An exception of one of them is thrown here once all are done.
  template <class F>
  void run(uint32_t count, uint32_t grain, F&& each) {
    if (count == 0) return;
    if (count <= grain) {
      each(0u, count, 0u);
      return base::yield_to_loops();
    }
    share(count, grain, const_cast<void*>(static_cast<const void*>(&each)),
          [](void* f, uint32_t from, uint32_t to, uint32_t thread) {
            (*static_cast<std::remove_reference_t<F>*>(f))(from, to, thread);
          });
  }

 private:
  using Call = void (*)(void*, uint32_t, uint32_t, uint32_t);
  void share(uint32_t count, uint32_t grain, void* data, Call call);
  void work(uint32_t thread);
  void piece(uint32_t from, uint32_t thread);
  void stop();
  void serve(uint32_t thread);
  uint32_t await_job(uint32_t done);

  const std::vector<int> cores_;
  std::vector<std::thread> workers_;
  // A ticket is the number of the job and how many of its pieces nobody has taken. Who takes one may read the job's
  // description, which does not change before all pieces are done; a thread that comes late finds none to take.
  uint32_t count_ = 0, grain_ = 1, pieces_ = 0;
  void* data_ = nullptr;
  Call call_ = nullptr;
  std::mutex thrown_mutex_;
  std::exception_ptr thrown_;  // the first of the job's; under thrown_mutex_ while pieces are left
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<uint32_t> left_{0};  // pieces that are not done
  alignas(64) std::atomic<uint32_t> job_{0};   // its number again, to sleep on
  alignas(64) std::atomic<uint32_t> asleep_{0};
  std::atomic<bool> stop_{false};
};

// How many threads a model gets that is not told: all cores but one for the shards, and at least one; on two cores two,
// since a step that waits for a busy core loses less than one that has half the cores.
uint32_t usual_threads();

// Cores that a step shares with no shard: of those that this process may use, in order, all but the first
// `pinned_shards`, each of which has a shard pinned to it (net/shard.h). Empty when none is left, or no shard is
// pinned.
std::vector<int> cores_beside(std::span<const int> allowed, uint32_t pinned_shards);
// Those that the calling thread may use, in order.
std::vector<int> allowed_cores();

}  // namespace weir::llm
