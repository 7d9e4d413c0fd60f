#include "bpe.h"

#include <bit>

#include "utf8.h"

namespace tokenizers {

void Bpe::reserve(size_t pieces, size_t bytes, size_t merges) {
  words_.reserve(pieces, bytes);
  merges_.assign(std::bit_ceil(merges * 2 + 16), {});
}

Bpe::Merge Bpe::merge_of(uint32_t left, uint32_t right) const {
  uint64_t pair = pair_of(left, right);
  size_t mask = merges_.size() - 1;
  for (size_t i = place(pair, mask);; i = (i + 1) & mask) {
    if (merges_[i].pair == pair) return merges_[i].merge;
    if (merges_[i].merge.rank == kNoId) return {};
  }
}

void Bpe::put_merge(uint64_t pair, Merge merge) {
  size_t mask = merges_.size() - 1, i = place(pair, mask);
  while (merges_[i].merge.rank != kNoId && merges_[i].pair != pair) i = (i + 1) & mask;
  merges_[i] = {pair, merge};
}

void Bpe::add_merge(uint32_t left, uint32_t right, uint32_t result, std::string_view left_text,
                    std::string_view joined) {
  put_merge(pair_of(left, right), {uint32_t(merge_count_++), result});
  // Only the seam is new: what lies inside the two parts was looked at when they were merged.
  std::string_view right_text = joined.substr(left_text.size());
  if (right_text.starts_with(kMetaspace) && !left_text.ends_with(kMetaspace)) spaces_begin_words_ = false;
}

void Bpe::finish() {
  if (merges_.empty()) merges_.assign(16, {});
  bool characters = options_.alphabet == BpeAlphabet::kCharacters;
  // If ▁ is no piece of its own, it may be unknown, and unknown characters may fuse across it.
  if (!characters || !words_.find(kMetaspace)) spaces_begin_words_ = false;
  for (int b = 0; b < (characters ? 0x80 : 0x100); ++b) {
    char c = char(b);
    if (const uint32_t* id = words_.find({&c, 1})) initial_[size_t(b)] = *id;
  }
  Work work;
  std::vector<uint32_t> ids;
  words_.for_each([&](std::string_view word, uint32_t& id) {
    // A character-level piece with ▁ inside may be cut there: its parts, not the piece, are what a text is made of.
    bool cut = spaces_begin_words_ && !word.starts_with(kMetaspace) && word.find(kMetaspace) != word.npos;
    ids.clear();
    if (!cut && !options_.ignore_merges) merge_word(word, work, ids);
    if (options_.ignore_merges || (ids.size() == 1 && ids[0] == id)) id |= kSettled;
  });
}

void Bpe::encode(std::string_view text, Work& work, std::vector<uint32_t>& out) const {
  if (!spaces_begin_words_ || (options_.ignore_merges && words_.find(text))) return encode_word(text, work, out);
  while (!text.empty()) {
    size_t end = text.find(kMetaspace, 0);
    while (end == 0 || (end != text.npos && text.substr(0, end).ends_with(kMetaspace)))
      end = text.find(kMetaspace, end + kMetaspace.size());
    std::string_view word = text.substr(0, end);
    encode_word(word, work, out);
    text.remove_prefix(word.size());
  }
}

void Bpe::encode_word(std::string_view word, Work& work, std::vector<uint32_t>& out) const {
  const uint32_t* found = words_.find(word);
  if (found && (*found & kSettled))
    out.push_back(*found & ~kSettled);
  else
    merge_word(word, work, out);
}

void Bpe::merge_word(std::string_view word, Work& work, std::vector<uint32_t>& out) const {
  work.symbols.clear();
  symbols_of(word, work.symbols);
  if (work.symbols.size() <= kShort)
    merge_short(work.symbols, out);
  else
    merge_long(work, out);
}

void Bpe::symbols_of(std::string_view word, std::vector<uint32_t>& out) const {
  bool after_unknown = false;
  auto unknown = [&] {
    if (options_.unk != kNoId && !(options_.fuse_unk && after_unknown)) out.push_back(options_.unk);
    after_unknown = true;
  };
  for (size_t at = 0; at < word.size();) {
    auto lead = static_cast<unsigned char>(word[at]);
    size_t size = options_.alphabet == BpeAlphabet::kBytes ? 1 : utf8_size(word[at]);
    std::string_view character = word.substr(at, size);
    uint32_t id = size == 1 ? initial_[lead] : kNoId;
    if (size > 1)
      if (const uint32_t* found = words_.find(character)) id = *found & ~kSettled;
    at += size;
    if (id != kNoId) {
      out.push_back(id);
      after_unknown = false;
    } else if (options_.byte_fallback && fall_back(character, out)) {
      after_unknown = false;
    } else {
      unknown();
    }
  }
}

bool Bpe::fall_back(std::string_view character, std::vector<uint32_t>& out) const {
  size_t before = out.size();
  for (char c : character) out.push_back(byte_ids_[static_cast<unsigned char>(c)]);
  for (size_t i = before; i < out.size(); ++i) {
    if (out[i] != kNoId) continue;
    out.resize(before);
    return false;
  }
  return true;
}

void Bpe::merge_short(std::vector<uint32_t>& ids, std::vector<uint32_t>& out) const {
  Merge merges[kShort];
  size_t n = ids.size();
  for (size_t i = 0; i + 1 < n; ++i) merges[i] = merge_of(ids[i], ids[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i)
      if (merges[i].rank < merges[best].rank) best = i;
    if (merges[best].rank == kNoId) break;
    ids[best] = merges[best].result;
    for (size_t i = best + 1; i + 1 < n; ++i) ids[i] = ids[i + 1], merges[i] = merges[i + 1];
    --n;
    if (best + 1 < n) merges[best] = merge_of(ids[best], ids[best + 1]);
    if (best > 0) merges[best - 1] = merge_of(ids[best - 1], ids[best]);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + long(n));
}

}  // namespace tokenizers
