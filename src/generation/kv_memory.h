// KvMemory: the blocks of sequences: found again for those that begin like others, grown as tokens come, sealed when
// whole, kept for sessions between their Calls.
//
// A session's sequence stays resident after its Call: its blocks stay held until the session's next Call takes them, it
// is released, or blocks are needed and it is the one that was used longest ago. That its tokens are still the
// session's is known by length (a history only grows at its end or is cut by a Call, and every Call passes here) and
// made sure of by comparing the last ones.
//
// Pure, and stepped by one thread; copies inside of blocks are the engine's.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/sip_hash.h"
#include "generation/engine.h"
#include "generation/kv_blocks.h"
#include "generation/sequence.h"

namespace weir::generation {

class KvMemory {
 public:
  enum class Cache : uint8_t { kOff, kOn };

  // `key` keys the hashes of contents. The engine outlives this and has reserved the blocks.
  KvMemory(TokenEngine& engine, uint32_t blocks, uint32_t block_size, Cache cache, uint64_t key);

  const KvBlocks& blocks() const { return kv_; }
  size_t residents() const { return by_session_.size(); }

  // Writes the sequence's tokens and gives it the blocks that are there already, up to `most` positions: its session's,
  // or those of cached prefixes. It then holds blocks for exactly its stored positions.
  void attach(Sequence& sequence, uint32_t most);
  // Blocks that it takes to write all of its positions from `stored` on; one more for recomputation.
  uint32_t lacking(const Sequence& sequence) const;
  // Takes them: that many are available.
  void fill(Sequence& sequence);
  // Room for one more position; false when no block is available.
  bool grow(Sequence& sequence);
  // The same for `positions` positions.
  bool reach(Sequence& sequence, uint32_t positions);
  // Up to `most` blocks more for recomputation; those that can be had without taking from anybody.
  void widen_scratch(Sequence& sequence, uint32_t most);
  void drop_scratch(Sequence& sequence, size_t keep = 0);
  // Blocks that others have stored meanwhile take the place of its next ones, as long as its last position remains.
  // Returns how many positions are stored in them. Nothing is found for a sequence of which more than its tokens is
  // asked for.
  uint32_t catch_up(Sequence& sequence);
  // Lets whole stored blocks be found by others.
  void seal(Sequence& sequence);
  // It gives back all of its blocks; what was sealed stays cached. Nothing is stored any more.
  void release(Sequence& sequence);

  // Leaves the sequence's tokens and blocks to its session; `sequence` has none afterwards.
  void keep(Sequence& sequence);
  // The session's history is `length` positions now, whatever it was before.
  void cut(base::SessionId session, uint32_t length);
  void forget(base::SessionId session);
  // The resident that was used longest ago gives back its blocks. False: there is none.
  bool evict();

 private:
  struct Resident {
    base::SessionId session;
    uint64_t salt = 0;
    uint32_t adapter = 0;
    std::vector<uint32_t> tokens;  // one for each stored position
    std::vector<KvBlocks::Id> blocks;
    uint32_t sealed = 0;
    bool sealable = true;
  };
  using Residents = std::list<Resident>;  // the longest unused first

  bool take_resident(Sequence& sequence);
  void find_prefix(Sequence& sequence, uint32_t most);
  void shorten(std::vector<KvBlocks::Id>& blocks, uint32_t positions);
  void own_tail(Sequence& sequence);
  void erase(Residents::iterator resident);
  KvBlocks::Content content(Sequence& sequence, uint32_t block) const;

  TokenEngine& engine_;
  const bool caches_;
  const uint64_t key_;
  KvBlocks kv_;
  Residents residents_;
  std::unordered_map<base::SessionId, Residents::iterator, base::KeyedHash> by_session_;
};

}  // namespace weir::generation
