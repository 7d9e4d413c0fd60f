// Bus: a shard's way down. One per shard, used on that shard's thread only.
//
// A dialect asks for a Call, fills it and submits it; Events come back to the Call's Sink from turn(), never from
// inside submit(). A Call whose client has left is abandoned, and dies here when its last Event is drained.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/client.h"
#include "base/env.h"
#include "base/ids.h"
#include "bus/catalog.h"
#include "bus/mailbox.h"
#include "bus/offload_task.h"
#include "bus/pokes.h"
#include "msg/call.h"

namespace weir::base {
class MemoryLedger;
}

namespace weir::bus {

// The limits of a Bus. Per shard.
struct BusLimits {
  uint32_t max_in_flight = 1024;         // Calls lent out at once; more are refused with RESOURCE_EXHAUSTED
  base::MemoryLedger* memory = nullptr;  // from base::Overload::kRefuse on no Call is lent: base::overloaded()
  // Bounds one tenant once more than half are lent out; off by default. Calls without a tenant are not counted.
  base::ShareRule share{.percent = 100};
  msg::Anonymous anonymous = msg::Anonymous::kPerAddress;
};

// Whether what is sent is a request that may be refused, or belongs to one that has been admitted (its answer is
// written): that is taken beyond the limits, and at the end, too.
enum class Admission : uint8_t { kAsked, kGranted };

class Bus {
 public:
  Bus(base::Env& env, base::ShardId shard, std::function<void()> wake, BusLimits limits = {});
  ~Bus();  // every Call must have come back

  base::Env& env() { return env_; }
  Mailbox& mailbox() { return mailbox_; }
  const Catalog& catalog() const { return *catalog_; }
  // The part of it that a caller of that scope sees, for this turn; null: all. Requests look models up here and nowhere
  // else.
  const Catalog& catalog(const base::ModelScope* scope);
  std::shared_ptr<const Catalog> snapshot() const { return catalog_; }
  // Takes effect at once; Calls in flight keep the version they have.
  void publish(std::shared_ptr<const Catalog> catalog);

  // An empty Call, owned by this Bus. Give it to submit(), or to discard() unsent.
  msg::Call* make_call();
  void discard(msg::Call* call);

  // Checks deadline and admission, and lends the Call to the Inbox of `served`, which the caller has found in the
  // Catalog in this turn. On failure the Call is given back to the caller untouched (for discard()), and the Status
  // says why: UNAVAILABLE, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED. On success the Call is the Bus's; the Sink gets
  // its Events up to last(). Its version is that of `served`.
  // At its deadline the Sink gets Failed(DEADLINE_EXCEEDED), even if the engine still works on it.
  base::Status submit(msg::Call* call, Served& served);

  // `workers` run offload tasks; borrowed, they outlive every Call. Until this is called tasks run on the shard.
  void set_worker_pool(msg::Inbox& workers) { workers_ = &workers; }
  // Sends a task for a request to that model. It is a Call as any other: admission, abandon() and the mail are the
  // same, and the model version is there until the Sink has its Event. The Sink gets one Done, and then take() gives
  // it the task back; or one Failed. `bytes`: of the text that waits with it. `tenant`: on whose behalf; workers are
  // shared by tenants.
  base::Result<msg::Call*> send(std::unique_ptr<OffloadTask> task, size_t bytes, Served& served, msg::Sink& sink,
                                base::Ticket ticket, uint64_t tenant, Admission admission = Admission::kAsked);
  // Inside Sink::on().
  std::unique_ptr<OffloadTask> take(msg::Call& call);

  // The Sink gets no more Events of it; the Bus frees it when the engine lets go. The engine stops at its next step.
  // Not after the Sink has got last(): the Call is no longer the dialect's then.
  void abandon(msg::Call* call);
  // The same for a Call whose answer is complete before the engine knows (a stop string): it ends as a success.
  void finish(msg::Call* call);
  // As abandon(), but the Sink still gets its Events up to last(): for whoever has lent memory to the Call (a session
  // its tokens) and must know when the engine has let go. Such a Call has no deadline of its own, since the Sink gets
  // its last Event at that, too.
  void cancel(msg::Call* call);
  // The peer has drained `events` more Events of this Call.
  void add_credit(msg::Call* call, int32_t events);

  // Delivers the mail. Called by the shard at the end of each turn of its loop, and after a wake. What is left when
  // `long_enough` says so behind an Event waits for the next turn, in its order; a wake is asked for.
  void turn(const std::function<bool()>& long_enough = {});

  // Calls lent out now.
  uint32_t in_flight() const { return in_flight_; }
  // Refuses new Calls with UNAVAILABLE (drain).
  void close();

 private:
  struct Slot;  // a Call and what the Bus knows of it
  struct Due {
    base::Time when;
    Slot* slot;
    uint64_t serial;  // of the Slot when this was armed; a Due is stale when the Slot's has moved on
  };
  Slot& lent(msg::Call* call);
  base::Status admit(const msg::Call& call) const;
  base::Status lend(Slot& slot, Served& served, msg::Inbox& inbox, Admission admission);
  base::Status put(Slot& slot, Served& served, msg::Inbox& inbox);
  uint32_t held_by(uint64_t tenant) const;
  void count(uint64_t tenant);
  void deliver(msg::Mail& mail);
  void charge_tokens(Slot& slot, const msg::Event& event) const;
  void take_back(Slot& slot);
  void poke(msg::Inbox& inbox);
  void deliver_mail(const std::function<bool()>& long_enough);
  void release(Slot& slot);
  void recycle(Slot* slot);
  void arm(Slot& slot);
  void set_timer();
  void expire();
  void sweep();

  base::Env& env_;
  base::ShardId shard_;
  Mailbox mailbox_;
  BusLimits limits_;
  std::unique_ptr<msg::Inbox> at_once_;  // workers where there are none
  msg::Inbox* workers_;
  std::shared_ptr<const Catalog> catalog_;
  std::unordered_map<std::string, std::unique_ptr<const Catalog>> views_;  // of catalog_, by the text of their scopes
  uint32_t in_flight_ = 0;
  std::unordered_map<uint64_t, uint32_t> tenants_;  // Calls lent out, by tenant; some that have none now
  bool closed_ = false;
  std::deque<Slot> slots_;  // every Call ever made; as many as were ever in use at once
  std::vector<Slot*> spare_;
  std::vector<msg::Mail> mail_;
  size_t next_mail_ = 0;  // mail_ from here on is still to be delivered
  Pokes pokes_;           // of this turn
  std::vector<Due> due_;  // a heap, the earliest in front
  size_t armed_ = 0;      // how many of due_ are not stale
  base::TimerId timer_ = base::TimerId::kNone;
  base::Time timer_at_ = base::kNever;
};

}  // namespace weir::bus
