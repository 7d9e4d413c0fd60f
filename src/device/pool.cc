#include "device/pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/client.h"
#include "device/size_class.h"

namespace weir::device {
namespace {

constexpr size_t kSlabAlign = 64;
constexpr size_t kStripes = 16;                    // lists of idle slabs; a thread always takes from the same one
constexpr uint64_t kMostIdle = uint64_t(1) << 30;  // of small slabs in all lists, and of large ones
constexpr uint64_t kGivenBackAtOnce = uint64_t(128) << 20;     // unmapping takes 3 us per MiB, 70 without huge pages
constexpr size_t kLargeClasses = size_class(kHugePage).index;  // from here on

size_t this_stripe() {
  static std::atomic<size_t> next{0};
  thread_local size_t mine = next.fetch_add(1, std::memory_order_relaxed) % kStripes;
  return mine;
}

// A mutex that costs two atomic operations in line where nobody else has it, as is so in nearly every request's way:
// threads have stripes of their own. std::mutex is two calls into the C library each time, 130 instructions.
class StripeLock {
 public:
  void lock() {
    uint32_t expected = kFree;
    if (state_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire, std::memory_order_relaxed)) return;
    while (state_.exchange(kWaitedFor, std::memory_order_acquire) != kFree)
      state_.wait(kWaitedFor, std::memory_order_relaxed);
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kWaitedFor) state_.notify_one();
  }

 private:
  static constexpr uint32_t kFree = 0, kTaken = 1, kWaitedFor = 2;
  std::atomic<uint32_t> state_{kFree};
};

}  // namespace

struct SlabPool::Parts {
  struct Pooled final : base::Slab {
    Pooled(std::byte* data, size_t bytes, Parts* p, size_t cls, size_t stripe)
        : Slab(data, bytes, [](Slab* s) { static_cast<Pooled*>(s)->parts->give(static_cast<Pooled*>(s)); }),
          parts(p),
          size_class(uint16_t(cls)),
          home(uint16_t(stripe)) {}
    Parts* parts;
    Pooled* next = nullptr;
    base::Client* client = nullptr;  // charged for it while it is out
    uint16_t size_class;
    uint16_t home;        // the stripe that it was taken from and goes back to
    bool part = false;    // of the parts' share; while it is out
    bool rested = false;  // idle since before the last give_back_rested()
  };
  struct alignas(64) Stripe {
    StripeLock mutex;
    std::array<Pooled*, kSizeClasses> free{};
    std::atomic<uint64_t> idle{0};  // bytes of small slabs; written under mutex
  };

  Parts(std::unique_ptr<base::MemoryLedger> mine, base::MemoryLedger& charged, std::unique_ptr<SlabMemory> from)
      : own_ledger(std::move(mine)),
        ledger(charged),
        memory(std::move(from)),
        budget(charged.slab_limit()),
        parts_limit(std::max<uint64_t>(budget / 4, base::SlabSource::kPlenty)),
        large_idle_limit(std::max<uint64_t>(std::min(budget / 2, kMostIdle), kHugePage)),
        small_idle_limit(std::max<uint64_t>(large_idle_limit / kStripes, kHugePage)) {
    ledger.keep_idle({[this] { return idle(); }, [this] { trim(); }});
  }
  ~Parts() { trim(); }

  Pooled* reuse(size_t stripe, SizeClass cls);
  Pooled* fresh(size_t stripe, SizeClass cls);
  Pooled* make(size_t stripe, SizeClass cls);
  using Wake = base::MemoryLedger::Wake;
  void destroy(Pooled* slab, Wake wake);
  void trim();
  void give_back_rested();
  bool keep(Pooled* slab);
  void give(Pooled* slab);
  void settle(uint64_t bytes);
  bool lacks(uint64_t bytes) const;
  // The bytes that are charged and not handed out.
  uint64_t idle() const {
    uint64_t out = used.load(), all = ledger.held(base::MemoryKind::kSlabs);
    return all - std::min(all, out);
  }

  const std::unique_ptr<base::MemoryLedger> own_ledger;  // or null
  base::MemoryLedger& ledger;
  const std::unique_ptr<SlabMemory> memory;
  const uint64_t budget;
  const uint64_t parts_limit;
  const uint64_t large_idle_limit;  // of all stripes: one large slab is more than a stripe's part
  const uint64_t small_idle_limit;  // per stripe
  bool orphaned = false;            // the pool has gone; the last slab to come back ends this
  alignas(64) std::atomic<uint64_t> used{0};
  std::atomic<uint64_t> large_idle{0};
  std::atomic<uint64_t> parts{0};  // of used
  std::array<Stripe, kStripes> stripes;
};

SlabPool::Parts::Pooled* SlabPool::Parts::reuse(size_t stripe, SizeClass cls) {
  auto& s = stripes[stripe];
  std::lock_guard lock(s.mutex);
  Pooled* slab = s.free[cls.index];
  if (!slab) return nullptr;
  s.free[cls.index] = slab->next;
  if (cls.bytes < kHugePage)
    s.idle.store(s.idle.load(std::memory_order_relaxed) - cls.bytes, std::memory_order_relaxed);
  else
    large_idle.fetch_sub(cls.bytes, std::memory_order_relaxed);
  slab->rested = false;
  slab->refs.store(1, std::memory_order_relaxed);
  return slab;
}

SlabPool::Parts::Pooled* SlabPool::Parts::make(size_t stripe, SizeClass cls) {
  static_assert(sizeof(Pooled) <= kSlabAlign, "the header of a small slab lies in the 64 bytes before its data");
  bool large = cls.bytes >= kHugePage;
  auto* data = large ? memory->take(cls.bytes, kHugePage) : memory->take(kSlabAlign + cls.bytes, kSlabAlign);
  if (!data) return nullptr;
  if (!large) return new (data) Pooled(data + kSlabAlign, cls.bytes, this, cls.index, stripe);
  auto* slab = new (std::nothrow) Pooled(data, cls.bytes, this, cls.index, stripe);
  if (!slab) memory->give(data, cls.bytes, kHugePage);
  return slab;
}

// The charge ends with the memory. Of a pool that has gone the ledger may have gone, too.
void SlabPool::Parts::destroy(Pooled* slab, Wake wake) {
  size_t bytes = slab->capacity;
  auto* data = slab->data;
  if (bytes >= kHugePage) {
    delete slab;
    memory->give(data, bytes, kHugePage);
  } else {
    slab->~Pooled();
    memory->give(data - kSlabAlign, kSlabAlign + bytes, kSlabAlign);
  }
  if (!orphaned) ledger.give(base::MemoryKind::kSlabs, bytes, wake);
}

// Idle slabs of one size may be all that another size lacks.
void SlabPool::Parts::trim() {
  for (auto& stripe : stripes) {
    std::lock_guard lock(stripe.mutex);
    for (size_t cls = 0; cls < kSizeClasses; ++cls)
      while (auto* slab = stripe.free[cls]) {
        stripe.free[cls] = slab->next;
        if (cls >= kLargeClasses) large_idle.fetch_sub(slab->capacity, std::memory_order_relaxed);
        destroy(slab, Wake::kQuiet);
      }
    stripe.idle.store(0, std::memory_order_relaxed);
  }
}

// Unmapped outside of the lock, for which a shard may wait, and a part at a time.
void SlabPool::Parts::give_back_rested() {
  Pooled* gone = nullptr;
  uint64_t bytes = 0;
  for (auto& stripe : stripes) {
    std::lock_guard lock(stripe.mutex);
    for (size_t cls = kLargeClasses; cls < kSizeClasses; ++cls)
      for (Pooled** at = &stripe.free[cls]; Pooled* slab = *at;) {
        if (!std::exchange(slab->rested, true) || (gone && bytes + slab->capacity > kGivenBackAtOnce)) {
          at = &slab->next;
          continue;
        }
        bytes += slab->capacity;
        *at = std::exchange(slab->next, gone);
        gone = slab;
      }
  }
  large_idle.fetch_sub(bytes, std::memory_order_relaxed);
  while (gone) destroy(std::exchange(gone, gone->next), Wake::kQuiet);
}

// False: enough slabs are idle.
bool SlabPool::Parts::keep(Pooled* slab) {
  const uint64_t bytes = slab->capacity;
  auto& s = stripes[slab->home];
  std::lock_guard lock(s.mutex);
  if (bytes < kHugePage) {
    const auto idle = s.idle.load(std::memory_order_relaxed) + bytes;
    if (idle > small_idle_limit) return false;
    s.idle.store(idle, std::memory_order_relaxed);
  } else if (large_idle.fetch_add(bytes, std::memory_order_relaxed) + bytes > large_idle_limit) {
    large_idle.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  slab->next = std::exchange(s.free[slab->size_class], slab);
  return true;
}

void SlabPool::Parts::give(Pooled* slab) {
  uint64_t bytes = slab->capacity;
  if (std::exchange(slab->part, false)) parts.fetch_sub(bytes);
  if (auto* client = std::exchange(slab->client, nullptr)) client->take_off(base::Held::kSlabBytes, bytes);
  if (!keep(slab)) destroy(slab, Wake::kQuiet);
  settle(bytes);
}

// The order of the two atomics matters against take(): either it sees the bytes, or this sees that somebody waits.
void SlabPool::Parts::settle(uint64_t bytes) {
  auto before = used.fetch_sub(bytes);
  base::check(before >= bytes, "a slab comes back once");
  if (!orphaned) return ledger.notify_room();
  if (before == bytes) delete this;
}

SlabPool::SlabPool(uint64_t budget_bytes) : SlabPool(budget_bytes, system_memory()) {}
SlabPool::SlabPool(uint64_t budget_bytes, std::unique_ptr<SlabMemory> memory) {
  auto own = std::make_unique<base::MemoryLedger>(budget_bytes);
  base::MemoryLedger& ledger = *own;
  parts_ = std::make_unique<Parts>(std::move(own), ledger, std::move(memory));
}
SlabPool::SlabPool(base::MemoryLedger& ledger, std::unique_ptr<SlabMemory> memory)
    : parts_(std::make_unique<Parts>(nullptr, ledger, std::move(memory))) {}

SlabPool::~SlabPool() {
  parts_->trim();
  parts_->ledger.keep_idle({});
  if (parts_->used.load() == 0) return;
  parts_->orphaned = true;
  (void)parts_.release();
}

base::Slab* SlabPool::take(size_t bytes) {
  if (bytes > kLargestSlab) return nullptr;
  auto cls = size_class(bytes);
  size_t stripe = this_stripe();
  auto* slab = parts_->reuse(stripe, cls);
  if (!slab) slab = parts_->fresh(stripe, cls);
  if (slab) parts_->used.fetch_add(cls.bytes);
  return slab;
}

// A slab that is in no list of idle ones.
SlabPool::Parts::Pooled* SlabPool::Parts::fresh(size_t stripe, SizeClass cls) {
  if (!ledger.take(base::MemoryKind::kSlabs, cls.bytes)) return nullptr;
  if (auto* slab = make(stripe, cls)) return slab;
  // There is no memory, though the budget is not spent. What comes back from here on is either trimmed or wakes.
  ledger.note_refused();
  trim();
  if (auto* slab = make(stripe, cls)) return slab;
  ledger.give(base::MemoryKind::kSlabs, cls.bytes, Wake::kQuiet);
  return nullptr;
}

// All that is out would not be enough, and the budget is not what is in the way.
bool SlabPool::Parts::lacks(uint64_t bytes) const {
  auto out = used.load();
  return out < bytes && bytes <= budget - std::min(budget, out);
}

bool SlabPool::hopeless(size_t bytes) const {
  if (bytes > kLargestSlab) return true;
  auto cls = size_class(bytes);
  if (cls.bytes > parts_->budget) return true;
  if (!parts_->lacks(cls.bytes)) return false;
  parts_->trim();
  if (auto* slab = parts_->fresh(this_stripe(), cls)) {
    parts_->destroy(slab, Parts::Wake::kQuiet);
    return false;
  }
  return parts_->lacks(cls.bytes);  // as before: nobody else has what is missing
}

// Refused is also who comes when another's part is on its way back; that one wakes.
base::Slab* SlabPool::take_part(size_t bytes) {
  if (bytes > kLargestSlab) return nullptr;
  uint64_t charged = size_class(bytes).bytes;
  auto fits = [&] {
    auto before = parts_->parts.fetch_add(charged);
    if (before == 0 || before + charged <= parts_->parts_limit) return true;
    parts_->parts.fetch_sub(charged);
    return false;
  };
  if (!fits()) {
    parts_->ledger.note_refused();
    if (!fits()) return nullptr;
  }
  auto* slab = static_cast<Parts::Pooled*>(take(bytes));
  if (slab)
    slab->part = true;
  else
    parts_->parts.fetch_sub(charged);
  return slab;
}

void SlabPool::charge(base::Slab* slab, base::Client& client) {
  static_cast<Parts::Pooled*>(slab)->client = &client;
  client.add(base::Held::kSlabBytes, slab->capacity);
}

bool SlabPool::scarce_for_wholes() const { return parts_->ledger.held() > parts_->budget / 2; }

bool SlabPool::scarce() const {
  return scarce_for_wholes() || parts_->parts.load(std::memory_order_relaxed) > parts_->parts_limit / 2;
}

base::MemoryLedger* SlabPool::ledger() { return &parts_->ledger; }
uint64_t SlabPool::budget() const { return parts_->budget; }
uint64_t SlabPool::used() const { return parts_->used.load(std::memory_order_relaxed); }

uint64_t SlabPool::idle() const { return parts_->idle(); }
void SlabPool::give_back_rested() { parts_->give_back_rested(); }
void SlabPool::on_room(std::function<void()> wake) { parts_->ledger.on_room(std::move(wake)); }

}  // namespace weir::device
