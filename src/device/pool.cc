#include "device/pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/size_class.h"

namespace weir::device {
namespace {

constexpr size_t kSlabAlign = 64;
constexpr size_t kStripes = 16;  // lists of idle slabs; a thread always takes from the same one
constexpr uint64_t kMostIdle = uint64_t(1) << 30;

size_t this_stripe() {
  static std::atomic<size_t> next{0};
  thread_local size_t mine = next.fetch_add(1, std::memory_order_relaxed) % kStripes;
  return mine;
}

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
    uint16_t size_class;
    uint16_t home;      // the stripe that it was taken from and goes back to
    bool part = false;  // of the parts' share; while it is out
  };
  struct alignas(64) Stripe {
    std::mutex mutex;
    std::array<Pooled*, kSizeClasses> free{};
    std::atomic<uint64_t> idle{0};  // written under mutex
  };

  Parts(uint64_t limit, std::unique_ptr<SlabMemory> from)
      : memory(std::move(from)),
        budget(limit),
        parts_limit(std::max<uint64_t>(limit / 4, base::SlabParts::kFirst)),
        idle_limit(std::max<uint64_t>(std::min(limit / 2, kMostIdle) / kStripes, kHugePage)) {}
  ~Parts() { trim(); }

  bool reserve(uint64_t bytes);
  Pooled* reuse(size_t stripe, SizeClass cls);
  Pooled* make(size_t stripe, SizeClass cls);
  void destroy(Pooled* slab);
  void trim();
  void give(Pooled* slab);
  void unreserve(uint64_t bytes);
  bool lacks(uint64_t bytes) const;

  const std::unique_ptr<SlabMemory> memory;
  const uint64_t budget;
  const uint64_t parts_limit;
  const uint64_t idle_limit;  // per stripe
  bool orphaned = false;      // the pool has gone; the last slab to come back ends this
  alignas(64) std::atomic<uint64_t> used{0};
  std::atomic<uint64_t> parts{0};    // of used
  std::atomic<bool> starved{false};  // take() has returned null
  std::mutex listeners_mutex;
  std::vector<std::function<void()>> listeners;
  std::array<Stripe, kStripes> stripes;
};

bool SlabPool::Parts::reserve(uint64_t bytes) {
  auto now = used.load();
  do {
    if (bytes > budget || now > budget - bytes) return false;
  } while (!used.compare_exchange_weak(now, now + bytes));
  return true;
}

SlabPool::Parts::Pooled* SlabPool::Parts::reuse(size_t stripe, SizeClass cls) {
  auto& s = stripes[stripe];
  std::lock_guard lock(s.mutex);
  Pooled* slab = s.free[cls.index];
  if (!slab) return nullptr;
  s.free[cls.index] = slab->next;
  s.idle.store(s.idle.load(std::memory_order_relaxed) - cls.bytes, std::memory_order_relaxed);
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

void SlabPool::Parts::destroy(Pooled* slab) {
  size_t bytes = slab->capacity;
  auto* data = slab->data;
  if (bytes >= kHugePage) {
    delete slab;
    return memory->give(data, bytes, kHugePage);
  }
  slab->~Pooled();
  memory->give(data - kSlabAlign, kSlabAlign + bytes, kSlabAlign);
}

// Idle slabs of one size may be all that another size lacks.
void SlabPool::Parts::trim() {
  for (auto& stripe : stripes) {
    std::lock_guard lock(stripe.mutex);
    for (auto& head : stripe.free)
      while (head) destroy(std::exchange(head, head->next));
    stripe.idle.store(0, std::memory_order_relaxed);
  }
}

void SlabPool::Parts::give(Pooled* slab) {
  uint64_t bytes = slab->capacity;
  if (std::exchange(slab->part, false)) parts.fetch_sub(bytes);
  {
    auto& s = stripes[slab->home];
    std::lock_guard lock(s.mutex);
    auto idle = s.idle.load(std::memory_order_relaxed);
    if (idle + bytes <= idle_limit) {
      s.idle.store(idle + bytes, std::memory_order_relaxed);
      slab->next = std::exchange(s.free[slab->size_class], slab);
      slab = nullptr;
    }
  }
  if (slab) destroy(slab);
  unreserve(bytes);
}

// The order of the two atomics matters against take(): either it sees the bytes, or this sees that it starved.
void SlabPool::Parts::unreserve(uint64_t bytes) {
  if (orphaned) {
    if (used.fetch_sub(bytes) == bytes) delete this;
    return;
  }
  auto before = used.fetch_sub(bytes);
  base::check(before >= bytes, "a slab comes back once");
  if (!starved.load() || !starved.exchange(false)) return;
  std::vector<std::function<void()>> all;
  {
    std::lock_guard lock(listeners_mutex);
    all = listeners;
  }
  for (auto& wake : all) wake();
}

SlabPool::SlabPool(uint64_t budget_bytes) : SlabPool(budget_bytes, system_memory()) {}
SlabPool::SlabPool(uint64_t budget_bytes, std::unique_ptr<SlabMemory> memory)
    : parts_(std::make_unique<Parts>(budget_bytes, std::move(memory))) {}

SlabPool::~SlabPool() {
  if (parts_->used.load() == 0) return;
  parts_->orphaned = true;
  (void)parts_.release();
}

base::Slab* SlabPool::take(size_t bytes) {
  if (bytes > kLargestSlab) return nullptr;
  auto cls = size_class(bytes);
  if (!parts_->reserve(cls.bytes)) {
    parts_->starved.store(true);
    if (!parts_->reserve(cls.bytes)) return nullptr;
  }
  size_t stripe = this_stripe();
  if (auto* slab = parts_->reuse(stripe, cls)) return slab;
  if (auto* slab = parts_->make(stripe, cls)) return slab;
  // There is no memory, though the budget is not spent. What comes back from here on is either trimmed or wakes.
  parts_->starved.store(true);
  parts_->trim();
  if (auto* slab = parts_->make(stripe, cls)) return slab;
  parts_->used.fetch_sub(cls.bytes);  // and do not wake anybody for this
  return nullptr;
}

// All that is out would not be enough, and the budget is not what is in the way.
bool SlabPool::Parts::lacks(uint64_t bytes) const {
  auto out = used.load();
  return out < bytes && bytes <= budget - out;
}

bool SlabPool::hopeless(size_t bytes) const {
  if (bytes > kLargestSlab) return true;
  auto cls = size_class(bytes);
  if (cls.bytes > parts_->budget) return true;
  if (!parts_->lacks(cls.bytes)) return false;
  parts_->trim();
  if (auto* slab = parts_->make(this_stripe(), cls)) return parts_->destroy(slab), false;
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
    parts_->starved.store(true);
    if (!fits()) return nullptr;
  }
  auto* slab = static_cast<Parts::Pooled*>(take(bytes));
  if (slab)
    slab->part = true;
  else
    parts_->parts.fetch_sub(charged);
  return slab;
}

bool SlabPool::scarce() const {
  return parts_->used.load(std::memory_order_relaxed) > parts_->budget / 2 ||
         parts_->parts.load(std::memory_order_relaxed) > parts_->parts_limit / 2;
}

uint64_t SlabPool::budget() const { return parts_->budget; }
uint64_t SlabPool::used() const { return parts_->used.load(std::memory_order_relaxed); }

uint64_t SlabPool::idle() const {
  uint64_t sum = 0;
  for (auto& stripe : parts_->stripes) sum += stripe.idle.load(std::memory_order_relaxed);
  return sum;
}

void SlabPool::on_room(std::function<void()> wake) {
  std::lock_guard lock(parts_->listeners_mutex);
  parts_->listeners.push_back(std::move(wake));
}

}  // namespace weir::device
