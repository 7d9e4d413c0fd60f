#include "sched/workers.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace weir::sched {

using base::Code;

Workers::~Workers() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Workers::post(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    base::check(!stopping_, "Workers that end take no work");
    queue_.push_back(std::exchange(work, nullptr));
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
  auto work = std::move(queue_.front());
  queue_.pop_front();
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
    work();
    work = nullptr;
    lock.lock();
  }
}

namespace {

// Who waits is in `waiting_`, in the order of its turns at the workers; a turn whose Call was answered early finds
// another one, or none.
class Errands final : public msg::Inbox {
 public:
  explicit Errands(const ErrandPolicy& policy) : max_bytes_(policy.max_bytes), workers_(policy.threads) {}

  void put(msg::Call* call) override {
    auto* errand = static_cast<bus::ErrandCall*>(call);
    bool full;
    {
      std::lock_guard lock(mutex_);
      full = errand->bytes > max_bytes_ - std::min(bytes_, max_bytes_);
      if (!full) bytes_ += errand->bytes, waiting_.push_back(errand);
    }
    if (!full) return workers_.post([this] { turn(); });
    call->home->post_here({call,
                           {msg::Failed{base::try_again(Code::kResourceExhausted,
                                                        "too many long texts are waiting to be tokenized; try "
                                                        "again later")}}});
  }

  void poke() override {
    std::vector<msg::Mail> gone;
    {
      std::lock_guard lock(mutex_);
      std::erase_if(waiting_, [&](bus::ErrandCall* call) {
        if (!call->cancelled.load(std::memory_order_acquire)) return false;
        bytes_ -= call->bytes;
        gone.push_back({call, {msg::Failed{base::failure(Code::kCancelled, "cancelled")}}});
        return true;
      });
    }
    for (auto& mail : gone) post(std::move(mail));
  }

 private:
  void turn() {
    bus::ErrandCall* call;
    {
      std::lock_guard lock(mutex_);
      if (waiting_.empty()) return;
      call = waiting_.front();
      waiting_.pop_front();
      bytes_ -= call->bytes;
    }
    post({call, run(*call)});
  }

  static msg::Event run(bus::ErrandCall& call) {
    if (call.cancelled.load(std::memory_order_acquire))
      return {msg::Failed{base::failure(Code::kCancelled, "cancelled")}};
    try {
      call.errand->run();
      return {msg::Done{}};
    } catch (const std::bad_alloc&) {
      return {msg::Failed{base::try_again(Code::kResourceExhausted, "out of memory; try again later")}};
    }
  }

  static void post(msg::Mail mail) {
    auto* home = mail.call->home;
    std::vector<msg::Mail> one;
    one.push_back(std::move(mail));
    home->post(one);
  }

  const size_t max_bytes_;
  std::mutex mutex_;
  std::deque<bus::ErrandCall*> waiting_;  // under mutex_
  size_t bytes_ = 0;                      // of those; under mutex_
  Workers workers_;                       // after what they use
};

}  // namespace

std::unique_ptr<msg::Inbox> make_errands(const ErrandPolicy& policy) { return std::make_unique<Errands>(policy); }

}  // namespace weir::sched
