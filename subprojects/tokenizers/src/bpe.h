// Bpe: one word -> token ids, by merging neighbours in the order of the merge list. Immutable after finish(); any
// thread.
//
// A word starts as one symbol per byte (byte-level BPE) or per character (SentencePiece-style). While two neighbours
// are in the merge list, the pair of the lowest rank, and of these the leftmost, becomes one symbol. Most words need
// none of that: finish() merges every piece of the vocabulary once, and a word that is a piece which its own merges
// lead to is found by one look-up. Short words are merged by scanning (n² of at most kShort symbols), long ones by rank
// buckets. Either is linear in the text, whatever the text and the merges are.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "piece_map.h"

namespace tokenizers {

inline constexpr uint32_t kNoId = ~0u;
inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // ▁ (U+2581), how SentencePiece writes a space

enum class BpeAlphabet : uint8_t { kBytes, kCharacters };
struct BpeOptions {
  BpeAlphabet alphabet = BpeAlphabet::kBytes;
  bool ignore_merges = false;  // a word that is a piece is that piece, whatever the merges say
  bool byte_fallback = false;  // an unknown character becomes the pieces <0x00>…<0xFF>
  bool fuse_unk = false;       // unknown characters side by side become one unknown token
  uint32_t unk = kNoId;        // without it, unknown characters vanish
};

class Bpe {
 public:
  // Working memory of one thread, kept from word to word.
  struct Work;

  explicit Bpe(BpeOptions options = {}) : options_(options) { initial_.fill(kNoId), byte_ids_.fill(kNoId); }

  // Building: all pieces, then all merges in order of rank, then finish().
  void reserve(size_t pieces, size_t bytes, size_t merges);
  void add_piece(std::string_view word, uint32_t id) { words_.put(word, id); }
  void add_byte_piece(uint8_t byte, uint32_t id) { byte_ids_[byte] = id; }
  // `joined` is the text of `result`.
  void add_merge(uint32_t left, uint32_t right, uint32_t result, std::string_view left_text, std::string_view joined);
  void finish();

  // Appends the ids of `text`, valid UTF-8 that no token crosses the borders of.
  void encode(std::string_view text, Work& work, std::vector<uint32_t>& out) const;

 private:
  static constexpr size_t kShort = 32;
  static constexpr uint32_t kSettled = 1u << 31;  // in the values of words_: its own merges lead to this piece

  struct Merge {
    uint32_t rank = kNoId, result = kNoId;
  };
  struct MergeSlot {
    uint64_t pair = ~0ull;
    Merge merge;
  };
  static uint64_t pair_of(uint32_t left, uint32_t right) { return uint64_t(left) << 32 | right; }
  static size_t place(uint64_t pair, size_t mask) { return size_t((pair * 0x9E3779B97F4A7C15u) >> 32) & mask; }
  Merge merge_of(uint32_t left, uint32_t right) const;
  void put_merge(uint64_t pair, Merge merge);

  void encode_word(std::string_view word, Work& work, std::vector<uint32_t>& out) const;
  void merge_word(std::string_view word, Work& work, std::vector<uint32_t>& out) const;
  void symbols_of(std::string_view word, std::vector<uint32_t>& out) const;
  bool fall_back(std::string_view character, std::vector<uint32_t>& out) const;
  void merge_short(std::vector<uint32_t>& symbols, std::vector<uint32_t>& out) const;
  void merge_long(Work& work, std::vector<uint32_t>& out) const;

  BpeOptions options_;
  PieceMap words_;
  std::array<uint32_t, 256> initial_;   // one-byte words
  std::array<uint32_t, 256> byte_ids_;  // <0x00>…
  std::vector<MergeSlot> merges_;
  size_t merge_count_ = 0;
  bool spaces_begin_words_ = true;  // no piece has ▁ behind another character: words end before each ▁ that follows one
};

// The pairs of a long word by rank: a heap of the ranks that occur, and for each its positions from left to right.
struct Bpe::Work {
  struct Node {
    uint32_t id, before, after;  // neighbours by index; kNoId at the ends
    Merge merge;                 // of this with the next
  };
  struct Bucket {
    std::vector<uint32_t> row;   // ascending; from `head` on
    std::vector<uint32_t> late;  // positions that came out of order: a heap, least on top
    size_t head = 0;
    bool listed = false;  // in `ranks`
  };
  std::vector<uint32_t> symbols;
  std::vector<Node> nodes;
  std::vector<Bucket> buckets;
  std::vector<uint64_t> ranks;                   // a heap of rank << 32 | bucket, least on top
  std::vector<uint64_t> index;                   // rank << 32 | bucket, open addressing
  const std::atomic<bool>* cancelled = nullptr;  // or null; true: a long word may stay unmerged

  void clear(size_t symbols);
  void push(uint32_t rank, uint32_t position);
  // The leftmost position of the lowest rank; false when there are none.
  bool pop(uint32_t& rank, uint32_t& position);

 private:
  uint32_t bucket_of(uint32_t rank);
  void grow_index();
  size_t used = 0;
};

}  // namespace tokenizers
