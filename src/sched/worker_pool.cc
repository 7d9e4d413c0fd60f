#include "sched/worker_pool.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "base/extra_work.h"
#include "base/workers.h"
#include "bus/mail_bursts.h"
#include "msg/tenant.h"

namespace weir::sched {

using base::Code;

bool WaitingBytes::add(uint64_t tenant, size_t bytes) {
  const size_t share = most_ / 4;
  auto held = tenants_.find(tenant);
  const size_t own = held == tenants_.end() ? 0 : held->second;
  if (own > 0 && !msg::speaks_for_many(tenant) && bytes > share - std::min(own, share)) return false;
  if (bytes > most_ - all_) return false;
  all_ += bytes;
  if (bytes > 0) tenants_[tenant] = own + bytes;
  return true;
}

void WaitingBytes::remove(uint64_t tenant, size_t bytes) {
  all_ -= bytes;
  auto held = tenants_.find(tenant);
  if (held != tenants_.end() && (held->second -= bytes) == 0) tenants_.erase(held);
}

namespace {

constexpr int kCompilerNice = 5;  // a form leaves two thirds of a core to whoever wants it, too

// Waiting Calls are in `waiting_`, by the number of their turn at the workers; the turn of a Call that was answered
// early finds none.
class OffloadInbox final : public msg::Inbox {
 public:
  explicit OffloadInbox(const WorkerPoolPolicy& policy)
      : bytes_(policy.max_bytes),
        workers_(policy.threads),
        quick_(policy.threads),
        compiler_(policy.threads, kCompilerNice) {}

  void put(msg::Call* call) override {
    auto* task = static_cast<bus::OffloadCall*>(call);
    bool full;
    uint64_t number = 0;
    {
      std::lock_guard lock(mutex_);
      full = !task->granted && !bytes_.add(task->tenant, task->bytes);
      if (!full) waiting_.emplace(number = ++put_, task);
    }
    if (!full) return queue(task, number);
    call->home->post_here({call,
                           {msg::Failed{base::try_again(Code::kResourceExhausted,
                                                        "too many long requests are waiting to be read or tokenized; "
                                                        "try again later")}}});
  }

  void poke() override {
    std::vector<msg::Mail> gone;
    {
      std::lock_guard lock(mutex_);
      std::erase_if(waiting_, [&](const auto& each) {
        bus::OffloadCall* call = each.second;
        if (!call->cancelled.load(std::memory_order_acquire)) return false;
        forget(*call);
        gone.push_back({call, {msg::Failed{base::failure(Code::kCancelled, "cancelled")}}});
        return true;
      });
    }
    for (auto& mail : gone) bus::post_one(mail.call, std::move(mail.event));
  }

 private:
  // It waits no more.
  void forget(const bus::OffloadCall& call) {
    if (!call.granted) bytes_.remove(call.tenant, call.bytes);
  }
  // On an exception the caller has the Call.
  void queue(bus::OffloadCall* call, uint64_t number) {
    try {
      const auto* more = dynamic_cast<const base::ExtraWork*>(call->task.get());
      const uint64_t extra = more ? more->extra_work() : 0, work = call->bytes + extra;
      base::Workers& those = extra > 0 ? compiler_ : work > kQuickWork ? workers_ : quick_;
      const bool long_work = extra > 0 || (work > kQuickWork && !call->granted);
      auto begin = [this, number, long_work, shard = std::this_thread::get_id()] {
        if (long_work && std::this_thread::get_id() == shard) return refuse(number);
        turn(number);
      };
      those.post(std::move(begin), {call->tenant, work});
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (waiting_.erase(number) > 0) forget(*call);
      throw;
    }
  }
  // The Call of that number waits no more; null: it has been answered.
  bus::OffloadCall* take(uint64_t number) {
    std::lock_guard lock(mutex_);
    auto at = waiting_.find(number);
    if (at == waiting_.end()) return nullptr;
    bus::OffloadCall* call = at->second;
    waiting_.erase(at);
    forget(*call);
    return call;
  }
  void turn(uint64_t number) {
    if (auto* call = take(number)) bus::post_one(call, run(*call));
  }
  // The system has no thread for it. All others on the shard would wait for what takes long.
  void refuse(uint64_t number) {
    if (auto* call = take(number))
      bus::post_one(call, {msg::Failed{base::try_again(
                              Code::kUnavailable, "no thread could be started for a long request; try again later")}});
  }

  static msg::Event run(bus::OffloadCall& call) {
    if (call.cancelled.load(std::memory_order_acquire))
      return {msg::Failed{base::failure(Code::kCancelled, "cancelled")}};
    auto status = base::attempt("a task", [&] {
      call.task->watch(call.cancelled);
      call.task->run();
    });
    if (!status.ok()) return {msg::Failed{std::move(status)}};
    return {msg::Done{}};
  }

  std::mutex mutex_;
  std::map<uint64_t, bus::OffloadCall*> waiting_;  // under mutex_, as what follows
  uint64_t put_ = 0;
  WaitingBytes bytes_;     // of those who wait, but for the granted ones
  base::Workers workers_;  // after what they use, as the next two
  base::Workers quick_;
  base::Workers compiler_;
};

}  // namespace

std::unique_ptr<msg::Inbox> make_worker_pool(const WorkerPoolPolicy& policy) {
  return std::make_unique<OffloadInbox>(policy);
}

}  // namespace weir::sched
