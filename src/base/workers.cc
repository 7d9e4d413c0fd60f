#include "base/workers.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/attempt.h"
#include "base/check.h"

namespace weir::base {

Workers::~Workers() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Workers::post(std::function<void()> work, Share share) {
  {
    std::lock_guard lock(mutex_);
    check(!stopping_, "Workers that end take no work");
    const uint64_t cost = std::max<uint64_t>(share.cost, 1);
    const uint64_t tag = shares_.came(0, share.client, cost);
    queue_.emplace(Place{tag, ++posted_}, Waiting{std::exchange(work, nullptr), cost});
    if (queue_.size() > idle_ && threads_.size() < most_) add_thread();
    if (threads_.empty()) work = take();
  }
  wake_.notify_one();
  if (work) work();
}

// Where no more threads are to be had those that run take the work; where none runs, whoever posts does it.
void Workers::add_thread() {
  try {
    threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {
  }
}

std::function<void()> Workers::take() {
  auto first = queue_.begin();
  shares_.began(0, first->first.first, first->second.cost);
  auto work = std::move(first->second.work);
  queue_.erase(first);
  return work;
}

void Workers::run() {
  pthread_setname_np(pthread_self(), "worker");
  if (nice_ != 0) setpriority(PRIO_PROCESS, id_t(gettid()), nice_);  // of this thread alone, on Linux
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    --idle_;
    if (queue_.empty()) return;
    auto work = take();
    lock.unlock();
    (void)attempt("a worker", work);
    work = nullptr;
    lock.lock();
  }
}

}  // namespace weir::base
