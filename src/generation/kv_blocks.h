// KvBlocks: who holds which block of keys and values, and which whole blocks can be found again by their contents.
//
// Pure bookkeeping over a fixed number of blocks of block_size() positions; the memory is the engine's. A block is free
// (nobody holds it, its contents mean nothing), held by one or more sequences, or cached (nobody holds it, but its
// contents can still be found; the least recently held goes first when blocks run out).
//
// A block whose positions are all computed can be sealed: from then on it is never written and find() finds it by what
// it holds. A sealed block is named by (salt, adapter, the sealed block before it, its token ids, its images); ids are
// compared in full on a hit, the block before by a number that is never used again. Images are compared by their
// digests alone, which peers who do not know the key cannot make collide (SipHash-2-4, 128 bits).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace weir::generation {

// 128 bits of a hash; zero for "no images".
struct Digest {
  uint64_t low = 0, high = 0;
  friend bool operator==(const Digest&, const Digest&) = default;
};
Digest digest_of(std::span<const std::byte> data, uint64_t key);

class KvBlocks {
 public:
  using Id = uint32_t;
  static constexpr Id kNone = ~Id(0);

  // The tokens of one whole block, and the block before it.
  struct Content {
    uint64_t salt = 0;
    uint64_t after = 0;             // chain() of the block before; 0 = the beginning of a sequence
    std::span<const uint32_t> ids;  // block_size() of them
    Digest images;                  // of the images that reach into the block
    uint32_t adapter = 0;           // Call::adapter: with another one the same tokens have other keys and values
  };

  KvBlocks(uint32_t blocks, uint32_t block_size, uint64_t key);

  uint32_t size() const { return uint32_t(blocks_.size()); }
  uint32_t block_size() const { return block_size_; }
  uint32_t used() const { return size() - available(); }  // held
  uint32_t available() const { return uint32_t(free_.size()) + cached_; }
  uint32_t cached() const { return cached_; }
  uint32_t needed(uint32_t positions) const { return (positions + block_size_ - 1) / block_size_; }

  // A block with one holder, free or else the least recently used cached one; kNone when all are held.
  Id take();
  void share(Id id);
  // One holder less. Sequences drop their last block first, so that the end of a cached chain goes before its
  // beginning.
  void drop(Id id);
  // Whether its one holder may write to it.
  bool writable(Id id) const { return blocks_[id].holders == 1 && blocks_[id].chain == 0; }

  // The sealed block with these contents, with one holder more, or kNone.
  Id find(const Content& content);
  // Lets a held block be found by its contents. The result takes the place of `id` in its sequence: `id`, or a block
  // with the same contents that was there before (`id` has been dropped, the other one shared), or kNone when a
  // different block has the same hash (nothing has changed; the sequence seals no more).
  Id seal(Id id, const Content& content);
  // Names a sealed block for those after it; 0 when it is not sealed.
  uint64_t chain(Id id) const { return blocks_[id].chain; }
  uint32_t holders(Id id) const { return blocks_[id].holders; }

 private:
  struct Block {
    uint32_t holders = 0;
    Id older = kNone, newer = kNone;  // neighbours in the list of cached blocks
    uint64_t chain = 0, after = 0, salt = 0;
    uint32_t adapter = 0;
    Digest images, key;
  };
  struct KeyHash {
    size_t operator()(const Digest& d) const { return size_t(d.low); }
  };
  Digest key_of(const Content& content);
  bool holds(Id id, const Content& content) const;
  void cache(Id id);
  void uncache(Id id);
  void forget(Id id);

  const uint32_t block_size_;
  const uint64_t key_;
  std::vector<Block> blocks_;
  std::vector<uint32_t> ids_;  // of sealed blocks, block_size_ each
  std::vector<Id> free_;
  Id oldest_ = kNone, newest_ = kNone;
  uint32_t cached_ = 0;
  uint64_t chains_ = 0;  // given out so far
  std::unordered_map<Digest, Id, KeyHash> sealed_;
  std::vector<uint64_t> scratch_;
};

}  // namespace weir::generation
