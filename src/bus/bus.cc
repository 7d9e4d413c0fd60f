#include "bus/bus.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/attempt.h"
#include "base/check.h"
#include "base/memory_ledger.h"
#include "base/recycled.h"
#include "bus/counted_stats.h"
#include "msg/tenant.h"
#include "msg/token_charge.h"

namespace weir::bus {
namespace {

using base::check;
using base::Code;
using base::failure;

constexpr size_t kTensorsKept = 16;   // an idle Call with room for more gives that memory back
constexpr int kPasses = 8;            // rounds of mail per turn, so that inline engines cannot starve the sockets
constexpr size_t kStaleAllowed = 64;  // stale Dues beyond the number of live ones
constexpr size_t kIdleTenants = 64;   // tenants without Calls that are remembered
constexpr size_t kMostViews = 64;     // of the catalog; one more, and all are made anew as they are asked for

// Charges the tokens that a Call brings, which lie in no slab, for as long as it is lent. Few of them are not counted:
// max_in_flight bounds them.
base::Status charge_prompt(const msg::Call& call, base::MemoryLedger* memory, base::MemoryCharge& charge) {
  if (!memory || !call.generation) return {};
  uint64_t bytes = call.generation->append.size() * sizeof(uint32_t);
  if (bytes < base::kLeastCharged) return {};
  charge = {*memory, base::MemoryKind::kInput};
  if (charge.grow(bytes)) return {};
  return base::overloaded(memory->shortage() + "; try again later");
}

base::Status too_late() { return failure(Code::kDeadlineExceeded, "the deadline has passed"); }

// A Sink that throws, for want of memory or otherwise, gets no more until the Call's last Event, in place of which it
// gets Failed, which takes little (if not even that, its client waits until it gives up).
template <class Make>
base::Status call_sink(msg::Sink& sink, msg::Call& call, Make make) {
  return base::attempt("an answer", [&] { sink.on(call, make()); });
}

struct Later {
  bool operator()(const auto& a, const auto& b) const { return a.when > b.when; }
};

// Workers where there are none.
class AtOnce final : public msg::Inbox {
 public:
  void put(msg::Call* call) override {
    static_cast<OffloadCall*>(call)->task->run();
    call->home->post_here({call, {msg::Done{}}});
  }
};

}  // namespace

struct Bus::Slot : OffloadCall {
  enum class State : uint8_t { kSpare, kHeld, kLent } state = State::kSpare;  // held: by the dialect, to be filled
  bool timed = false;                                                         // a Due that is not stale names this
  base::Status thrown;                                                        // by the Sink, at an Event
  uint64_t serial = 0;
  base::MemoryCharge prompt;      // of its tokens, while lent
  uint32_t* of_tenant = nullptr;  // of tenants_, while lent; null: of no tenant
  msg::TokenCharge charge;        // while lent
  Served* served = nullptr;       // while lent, as the next
  msg::Inbox* inbox = nullptr;
  const msg::Inbox* of_served = nullptr;  // that of `served`, which may be let go of before the Call is back
  const Bus* owner = nullptr;             // for good; `home` is whoever stands between the engine and the Mailbox
};

Bus::Bus(base::Env& env, base::ShardId shard, std::function<void()> wake, BusLimits limits)
    : env_(env),
      shard_(shard),
      mailbox_(std::move(wake)),
      limits_(limits),
      at_once_(std::make_unique<AtOnce>()),
      workers_(at_once_.get()),
      catalog_(std::make_shared<const Catalog>()) {
  check(size_t(shard) < kMaxShards, "shard ids stay below kMaxShards");
}

Bus::~Bus() {
  check(in_flight_ == 0, "a Bus outlives its Calls");
  env_.cancel(timer_);
}

// Views hold models that may have to go.
void Bus::publish(std::shared_ptr<const Catalog> catalog) {
  catalog_ = std::move(catalog);
  views_.clear();
}

const Catalog& Bus::catalog(const base::ModelScope* scope) {
  if (!scope) return *catalog_;
  if (auto view = views_.find(scope->text()); view != views_.end()) return *view->second;
  if (views_.size() >= kMostViews) views_.clear();
  auto made = std::make_unique<const Catalog>(catalog_->visible_to(*scope));
  return *views_.emplace(scope->text(), std::move(made)).first->second;
}

void Bus::close() { closed_ = true; }

msg::Call* Bus::make_call() {
  if (spare_.empty()) {
    if (spare_.capacity() <= slots_.size()) spare_.reserve(2 * slots_.size() + 1);  // to come back takes no memory
    spare_.push_back(&slots_.emplace_back());
  }
  Slot* slot = spare_.back();
  spare_.pop_back();
  slot->state = Slot::State::kHeld;
  slot->owner = this;
  return slot;
}

void Bus::discard(msg::Call* call) {
  auto* slot = static_cast<Slot*>(call);
  check(slot->state == Slot::State::kHeld, "only a Call that was not sent is discarded");
  recycle(slot);
}

void Bus::recycle(Slot* slot) {
  ++slot->serial;
  slot->state = Slot::State::kSpare;
  if (!slot->thrown.ok()) slot->thrown = {};
  slot->charge = {};
  slot->prompt.clear();
  slot->task.reset();
  slot->clear();
  if (slot->inputs.capacity() > kTensorsKept) std::vector<msg::Tensor>().swap(slot->inputs);
  spare_.push_back(slot);
}

Bus::Slot& Bus::lent(msg::Call* call) {
  auto* slot = static_cast<Slot*>(call);
  check(slot->state == Slot::State::kLent && slot->owner == this, "Events and cancels name a Call lent by this Bus");
  return *slot;
}

base::Status Bus::admit(const msg::Call& call) const {
  if (closed_) return base::try_again(Code::kUnavailable, "the server is shutting down");
  if (call.deadline <= env_.now()) return too_late();
  if (limits_.memory && limits_.memory->update_overload() >= base::Overload::kRefuse)
    return base::overloaded(limits_.memory->shortage() + "; try again later");
  if (in_flight_ >= limits_.max_in_flight)
    return base::try_again(Code::kResourceExhausted, "too many requests in flight (limit " +
                                                         std::to_string(limits_.max_in_flight) + "); try again later");
  if (call.tenant == 0 || msg::speaks_for_many(call.tenant)) return {};
  auto allowed = [&](uint32_t held) { return limits_.share.allows(held, 1, in_flight_, limits_.max_in_flight); };
  if (allowed(in_flight_)) return {};  // also if all of them are its own
  if (const uint32_t held = held_by(call.tenant); !allowed(held))
    return base::try_again(Code::kResourceExhausted,
                           "you have " + std::to_string(held) +
                               " requests in flight, and more than half of all are in use (limits.client_share); try "
                               "again later");
  return {};
}

uint32_t Bus::held_by(uint64_t tenant) const {
  auto at = tenants_.find(tenant);
  return at == tenants_.end() ? 0 : at->second;
}

// Entries of tenants without Calls are kept for a while, so that counting does not allocate when a tenant comes again.
void Bus::count(uint64_t tenant) {
  if (tenants_.size() > 2 * size_t(in_flight_) + kIdleTenants)
    std::erase_if(tenants_, [](const auto& each) { return each.second == 0; });
  ++tenants_[tenant];
}

base::Status Bus::submit(msg::Call* call, Served& served) {
  bool shared = limits_.anonymous == msg::Anonymous::kShared && msg::is_anonymous(call->tenant);
  call->cache_scope = shared ? 0 : call->tenant;
  return lend(*static_cast<Slot*>(call), served, *served.inbox, Admission::kAsked);
}

base::Result<msg::Call*> Bus::send(std::unique_ptr<OffloadTask> task, size_t bytes, Served& served, msg::Sink& sink,
                                   base::Ticket ticket, uint64_t tenant, Admission admission) {
  auto* slot = static_cast<Slot*>(make_call());
  slot->task = std::move(task), slot->bytes = bytes, slot->tenant = tenant;
  slot->granted = admission == Admission::kGranted;
  slot->sink = &sink, slot->ticket = std::move(ticket);
  auto status = lend(*slot, served, *workers_, admission);
  if (status.ok()) return slot;
  discard(slot);
  return status;
}

std::unique_ptr<OffloadTask> Bus::take(msg::Call& call) { return std::move(lent(&call).task); }

base::Status Bus::lend(Slot& slot, Served& served, msg::Inbox& inbox, Admission admission) {
  check(slot.state == Slot::State::kHeld && slot.sink, "a Call is sent once, with a Sink");
  if (admission == Admission::kAsked)
    if (auto status = admit(slot); !status.ok()) {
      auto& stats = counted_stats(served);
      auto& counter = status.code == Code::kDeadlineExceeded ? stats.expired : stats.rejected;
      counter.fetch_add(1, std::memory_order_relaxed);
      return status;
    }
  if (auto status = charge_prompt(slot, limits_.memory, slot.prompt); !status.ok()) {
    counted_stats(served).rejected.fetch_add(1, std::memory_order_relaxed);
    return status;
  }
  return put(slot, served, inbox);
}

base::Status Bus::put(Slot& slot, Served& served, msg::Inbox& inbox) {
  slot.of_tenant = nullptr;
  if (slot.tenant != 0) {
    count(slot.tenant);
    slot.of_tenant = &tenants_.find(slot.tenant)->second;  // stays in its place while it counts something
  }
  slot.state = Slot::State::kLent;
  slot.served = &served, slot.inbox = &inbox, slot.of_served = served.inbox.get();
  std::optional<std::string> asked;  // where it names another one than it gets
  if (slot.version != served.spec.version) asked = std::exchange(slot.version, served.spec.version);
  slot.home = &mailbox_;
  slot.lease = &served;
  slot.times.queued = env_.now();
  if (slot.times.received == base::kNever) slot.times.received = slot.times.queued;
  // A cell has one writer, so a load and a store are enough; release pairs with the acquire in Served::idle().
  auto& calls = served.in_flight[size_t(shard_)].calls;
  calls.store(calls.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  ++in_flight_;
  if (slot.limiter) msg::TokenCharge::prompt(slot, served.spec, env_.now());
  auto status = base::attempt("a queue", [&] {
    if (slot.deadline != base::kNever) arm(slot);
    inbox.put(&slot);
  });
  if (status.ok()) return status;
  take_back(slot);
  if (asked) slot.version = *std::move(asked);
  return status;
}

// The Inbox has thrown, so it has not taken the Call: the caller has it again.
void Bus::take_back(Slot& slot) {
  auto& calls = slot.served->in_flight[size_t(shard_)].calls;
  calls.store(calls.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  --in_flight_;
  if (slot.of_tenant) --*slot.of_tenant;
  if (std::exchange(slot.timed, false)) --armed_;
  ++slot.serial;  // its Due is stale
  slot.state = Slot::State::kHeld;
  slot.prompt.clear();
  slot.lease = nullptr;
}

void Bus::abandon(msg::Call* call) {
  Slot& slot = lent(call);
  if (!slot.sink) return;
  slot.sink = nullptr;
  cancel(call);
}

void Bus::finish(msg::Call* call) {
  Slot& slot = lent(call);
  slot.sink = nullptr;
  if (slot.cancelled.load(std::memory_order_relaxed)) return;
  slot.satisfied.store(true, std::memory_order_relaxed);
  slot.cancelled.store(true, std::memory_order_release);
  poke(*slot.inbox);
}

void Bus::cancel(msg::Call* call) {
  Slot& slot = lent(call);
  if (slot.cancelled.load(std::memory_order_relaxed)) return;
  counted_stats(*slot.served).cancelled.fetch_add(1, std::memory_order_relaxed);
  slot.cancelled.store(true, std::memory_order_release);
  poke(*slot.inbox);
}

void Bus::add_credit(msg::Call* call, int32_t events) {
  Slot& slot = lent(call);
  if (slot.credit.fetch_add(events, std::memory_order_acq_rel) <= 0) poke(*slot.inbox);
}

// The end of this turn, which sends the pokes that wait, may have passed already: so a wake is asked for.
void Bus::poke(msg::Inbox& inbox) {
  if (pokes_.add(inbox)) mailbox_.wake();
}

void Bus::turn(const std::function<bool()>& long_enough) {
  deliver_mail(long_enough);
  if (pokes_.flush()) mailbox_.wake_again();  // an Inbox may have answered at once
}

void Bus::deliver_mail(const std::function<bool()>& long_enough) {
  for (int pass = 0; pass < kPasses; ++pass) {
    if (next_mail_ == mail_.size() && !mailbox_.drain(mail_)) return;
    while (next_mail_ < mail_.size()) {
      deliver(mail_[next_mail_++]);
      if (long_enough && long_enough()) pass = kPasses;
      if (pass == kPasses && next_mail_ < mail_.size()) return mailbox_.wake();
    }
    mail_.clear();  // drops the tensors of answers that nobody waits for
    next_mail_ = 0;
  }
  mailbox_.wake_again();
}

void Bus::charge_tokens(Slot& slot, const msg::Event& event) const { slot.charge.answer(slot, event, env_.now()); }

void Bus::deliver(msg::Mail& mail) {
  Slot& slot = lent(mail.call);
  bool last = mail.event.last();
  if (slot.limiter) charge_tokens(slot, mail.event);
  if (last && !slot.served->spec.parent.empty())
    count_adapter_call(*slot.served, slot, mail.event,
                       uint64_t(env_.wall().time_since_epoch() / std::chrono::milliseconds(1)));
  if (slot.sink && slot.thrown.ok()) {
    if (auto* failed = std::get_if<msg::Failed>(&mail.event.what)) {
      auto& stats = counted_stats(*slot.served);
      if (failed->status.code == Code::kDeadlineExceeded)
        stats.expired.fetch_add(1, std::memory_order_relaxed);
      else if (slot.task)  // workers serve all models
        stats.rejected.fetch_add(1, std::memory_order_relaxed);
    }
    auto thrown = call_sink(*slot.sink, slot, [&]() -> msg::Event&& { return std::move(mail.event); });
    if (!thrown.ok()) slot.thrown = std::move(thrown);
    if (auto* outputs = std::get_if<msg::Outputs>(&mail.event.what))
      base::SpareVector<msg::Tensor>::keep(std::move(outputs->tensors));
    if (!slot.thrown.ok() && !last) cancel(&slot);
  }
  // Not before the last Event: until then the engine may read what the Sink has lent to the Call.
  if (slot.sink && !slot.thrown.ok() && last)
    (void)call_sink(*slot.sink, slot, [&] { return msg::Event{msg::Failed{std::move(slot.thrown)}}; });
  if (last) release(slot);
}

void Bus::release(Slot& slot) {
  auto& calls = slot.served->in_flight[size_t(shard_)].calls;
  auto n = calls.load(std::memory_order_relaxed);
  check(n > 0 && in_flight_ > 0, "a Call comes back once");
  if (slot.timed) slot.timed = false, --armed_;
  --in_flight_;
  if (slot.of_tenant) --*slot.of_tenant;
  if (n == 1) pokes_.forget(slot.of_served);
  recycle(&slot);
  calls.store(n - 1, std::memory_order_release);  // from here on the model may go
  if (due_.size() > 2 * armed_ + kStaleAllowed) sweep();
}

void Bus::arm(Slot& slot) {
  due_.push_back({slot.deadline, &slot, slot.serial});
  slot.timed = true;
  ++armed_;
  std::push_heap(due_.begin(), due_.end(), Later{});
  if (due_.front().when < timer_at_) set_timer();
}

void Bus::set_timer() {
  env_.cancel(timer_);
  timer_at_ = due_.empty() ? base::kNever : due_.front().when;
  timer_ = due_.empty() ? base::TimerId::kNone : env_.at(timer_at_, [this] { expire(); });
}

// A Call that a Sink submits here ends later than timer_at_, so that the timer is set once, at the end.
void Bus::expire() {
  while (!due_.empty()) {
    auto [when, slot, serial] = due_.front();
    bool stale = slot->serial != serial;
    if (!stale && when > env_.now()) break;
    std::pop_heap(due_.begin(), due_.end(), Later{});
    due_.pop_back();
    if (stale) continue;
    slot->timed = false;
    --armed_;
    if (!slot->sink) continue;
    msg::Sink* sink = std::exchange(slot->sink, nullptr);
    slot->cancelled.store(true, std::memory_order_release);
    counted_stats(*slot->served).expired.fetch_add(1, std::memory_order_relaxed);
    poke(*slot->inbox);
    (void)call_sink(*sink, *slot, [] { return msg::Event{msg::Failed{too_late()}}; });
  }
  set_timer();
}

// Most Calls end long before their deadline; without this their Dues would pile up until then.
void Bus::sweep() {
  std::erase_if(due_, [](const Due& due) { return due.slot->serial != due.serial; });
  std::make_heap(due_.begin(), due_.end(), Later{});
}

}  // namespace weir::bus
