// Unigram: one word -> token ids, the pieces whose scores (logarithms of probabilities) have the greatest sum (T. Kudo,
// arXiv 1804.10959), found by Viterbi's algorithm as Hugging Face's library does it: of paths with equal sums the one
// that was found first, and characters that no piece is spelled by cost 10 more than the rarest piece. Immutable after
// finish(); any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "piece_map.h"

namespace tokenizers {

class Unigram {
 public:
  // Longer pieces are refused by the loader: time is the text's length times that of the longest piece.
  static constexpr size_t kMaxPiece = 256;
  static constexpr size_t kMaxNodes = 1u << 24;  // of the trie

  enum class ByteFallback : bool { kNo, kYes };
  Unigram(uint32_t unk, ByteFallback byte_fallback) : unk_(unk), byte_fallback_(byte_fallback == ByteFallback::kYes) {}

  void reserve(size_t pieces, size_t bytes);
  // `id`s come in order from 0. Of equal pieces the last one counts.
  void add(std::string_view piece, double score);
  // False: the pieces are too many for kMaxNodes.
  [[nodiscard]] bool finish();

  // Working memory of one thread.
  struct Work {
    struct Node {
      double score = 0;
      uint32_t from = kNowhere, id = 0;  // the best piece that ends here
    };
    static constexpr uint32_t kNowhere = ~0u;
    std::vector<Node> ends;                             // by the number of bytes before
    std::vector<std::pair<uint32_t, uint32_t>> pieces;  // from where, which: the last one first
    const std::atomic<bool>* cancelled = nullptr;
  };
  // Appends the ids of `word`, valid UTF-8 below 4 GiB. Appends nothing once work.cancelled is true.
  void encode(std::string_view word, Work& work, std::vector<uint32_t>& out) const;

 private:
  void relax(std::string_view word, size_t from, Work& work) const;
  void trace(std::string_view word, Work& work) const;
  void add_unknown(std::string_view text, std::vector<uint32_t>& out) const;

  // A trie whose nodes lie in breadth-first order: the children of one are neighbours, and sorted by their bytes.
  struct Trie {
    std::vector<uint32_t> first;                        // child of node n; those of n end where those of n + 1 begin
    std::vector<uint32_t> id;                           // or kNoId
    std::vector<uint8_t> byte;                          // that leads to the node
    uint32_t child(uint32_t node, uint8_t byte) const;  // 0: there is none
  };
  Trie trie_;
  std::array<uint32_t, 256> begins_{};  // children of the root; 0 = none
  PieceMap ids_;
  std::vector<double> scores_;            // by id
  std::array<uint32_t, 256> byte_ids_{};  // of <0x00> to <0xFF>, or kNoId
  double lowest_ = 0;
  uint32_t unk_;
  bool byte_fallback_;
};

}  // namespace tokenizers
