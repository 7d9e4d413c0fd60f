#include "unigram.h"

#include <algorithm>

#include "bpe.h"
#include "decoder.h"
#include "utf8.h"

namespace tokenizers {
namespace {

constexpr double kUnknownPenalty = 10;
constexpr size_t kCheckEvery = 4096;  // characters between two looks at the flag

}  // namespace

void Unigram::reserve(size_t pieces, size_t bytes) {
  ids_.reserve(pieces, bytes);
  scores_.reserve(pieces);
}

void Unigram::add(std::string_view piece, double score) {
  ids_.put(piece, uint32_t(scores_.size()));
  lowest_ = scores_.empty() ? score : std::min(lowest_, score);
  scores_.push_back(score);
}

// Level by level: a node stands for the sorted pieces [from, to) that agree in their first `depth` bytes.
bool Unigram::finish() {
  std::vector<std::pair<std::string_view, uint32_t>> sorted;
  sorted.reserve(ids_.size());
  ids_.for_each([&](std::string_view piece, uint32_t id) {
    if (!piece.empty()) sorted.emplace_back(piece, id);
  });
  std::sort(sorted.begin(), sorted.end());
  struct Range {
    uint32_t from, to;
  };
  std::vector<Range> level{{0, uint32_t(sorted.size())}}, next;
  trie_ = {{}, {kNoId}, {0}};
  for (size_t depth = 0; !level.empty(); ++depth, level.swap(next)) {
    next.clear();
    for (auto [from, to] : level) {
      trie_.first.push_back(uint32_t(trie_.id.size()));
      if (from < to && sorted[from].first.size() == depth) ++from;  // the node's own piece: the first of its range
      while (from < to) {
        const auto byte = uint8_t(sorted[from].first[depth]);
        uint32_t end = from + 1;
        while (end < to && uint8_t(sorted[end].first[depth]) == byte) ++end;
        if (trie_.id.size() == kMaxNodes) return false;
        if (depth == 0) begins_[byte] = uint32_t(trie_.id.size());
        const bool whole = sorted[from].first.size() == depth + 1;
        trie_.id.push_back(whole ? sorted[from].second : kNoId);
        trie_.byte.push_back(byte);
        next.push_back({from, end});
        from = end;
      }
    }
  }
  trie_.first.push_back(uint32_t(trie_.id.size()));
  byte_ids_.fill(kNoId);
  for (const auto& [piece, id] : sorted)
    if (auto byte = byte_of_piece(piece)) byte_ids_[*byte] = id;
  return true;
}

uint32_t Unigram::Trie::child(uint32_t node, uint8_t wanted) const {
  auto from = byte.begin() + first[node], to = byte.begin() + first[node + 1];
  auto found = to - from <= 8 ? std::find(from, to, wanted) : std::lower_bound(from, to, wanted);
  return found != to && *found == wanted ? uint32_t(found - byte.begin()) : 0;
}

// Pieces and the unknown character that begin at `from`: a longer path to where they end is replaced by a better one.
void Unigram::relax(std::string_view word, size_t from, Work& work) const {
  const double before = work.ends[from].score;
  const size_t character = utf8_size(word[from]);
  auto offer = [&](size_t to, double score, uint32_t id) {
    auto& end = work.ends[to];
    if (end.from == Work::kNowhere || score > end.score) end = {score, uint32_t(from), id};
  };
  bool known = false;
  uint32_t node = begins_[uint8_t(word[from])];
  for (size_t at = from + 1; node != 0; ++at) {
    if (uint32_t id = trie_.id[node]; id != kNoId) {
      offer(at, scores_[id] + before, id);
      known = known || at - from == character;
    }
    if (at == word.size()) break;
    node = trie_.child(node, uint8_t(word[at]));
  }
  if (!known) offer(from + character, lowest_ - kUnknownPenalty + before, unk_);
}

// The path, from its end; neighbours that are unknown become one.
void Unigram::trace(std::string_view word, Work& work) const {
  work.pieces.clear();
  for (size_t end = word.size(); end > 0; end = work.ends[end].from) {
    const auto& node = work.ends[end];
    if (node.id == unk_ && !work.pieces.empty() && work.pieces.back().second == unk_)
      work.pieces.back().first = node.from;
    else
      work.pieces.emplace_back(node.from, node.id);
  }
}

void Unigram::add_unknown(std::string_view text, std::vector<uint32_t>& out) const {
  if (const uint32_t* id = ids_.find(text)) return out.push_back(*id);
  const bool spelled =
      byte_fallback_ && std::all_of(text.begin(), text.end(), [&](char c) { return byte_ids_[uint8_t(c)] != kNoId; });
  if (!spelled) return out.push_back(unk_);
  for (char c : text) out.push_back(byte_ids_[uint8_t(c)]);
}

void Unigram::encode(std::string_view word, Work& work, std::vector<uint32_t>& out) const {
  work.ends.assign(word.size() + 1, {});
  size_t characters = 0;
  for (size_t at = 0; at < word.size(); at += utf8_size(word[at])) {
    relax(word, at, work);
    if (work.cancelled && ++characters % kCheckEvery == 0 && work.cancelled->load(std::memory_order_relaxed)) return;
  }
  trace(word, work);
  for (auto at = work.pieces.rbegin(); at != work.pieces.rend(); ++at) {
    const size_t end = std::next(at) == work.pieces.rend() ? word.size() : std::next(at)->first;
    if (at->second == unk_)
      add_unknown(word.substr(at->first, end - at->first), out);
    else
      out.push_back(at->second);
  }
}

}  // namespace tokenizers
