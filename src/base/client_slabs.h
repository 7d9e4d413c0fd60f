// ClientSlabs: slabs of another source that are charged to one client, which gets no more than its share of them.
#pragma once

#include <new>
#include <utility>

#include "base/bytes.h"
#include "base/client.h"
#include "base/memory_ledger.h"

namespace weir::base {

// As any source, from any one thread at a time; its slabs outlive it.
class ClientSlabs final : public SlabSource {
 public:
  // `from` is a pool, and outlives this. Without a client it is as `from`.
  ClientSlabs(SlabSource& from, ClientRef client, ShareRule share)
      : from_(from), client_(std::move(client)), share_(share) {}

  // Throws bad_alloc where the client would have more than its share: nobody is to take such memory elsewhere.
  Slab* take(size_t bytes) override {
    MemoryLedger* const memory = from_.ledger();
    if (client_ && memory && !client_->may_have(Held::kSlabBytes, bytes, share_, memory->held(), memory->budget()))
      throw std::bad_alloc();
    Slab* const slab = from_.take(bytes);
    if (slab && client_) from_.charge(slab, *client_.get());
    return slab;
  }
  bool hopeless(size_t bytes) const override { return from_.hopeless(bytes); }
  bool scarce() const override { return from_.scarce(); }
  MemoryLedger* ledger() override { return from_.ledger(); }

 private:
  SlabSource& from_;
  const ClientRef client_;
  const ShareRule share_;
};

}  // namespace weir::base
