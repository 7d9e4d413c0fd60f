#include "wire/h2_client_decoder.h"

#include <new>
#include <utility>

#include "wire/h2_head_cache.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr size_t kCostOfField = 32;  // beside its text, as HPACK counts

nghttp2_hd_inflater* new_inflater() {
  nghttp2_hd_inflater* inflater = nullptr;
  if (nghttp2_hd_inflate_new(&inflater) != 0) throw std::bad_alloc();
  return inflater;
}

}  // namespace

H2ClientDecoder::H2ClientDecoder(size_t most) : most_(most), inflater_(new_inflater()) {}

const H2ClientDecoder::Head* H2ClientDecoder::read(std::string_view block, Block kind) {
  KnownOfKind& known = known_[kind == Block::kTrailers];
  for (const Known& one : known.list)
    if (one.block == block) return &one.head;
  const bool kept = leaves_table(block);
  if (!kept) forget();
  begin(kind);
  const Head* head = add(block, BlockRest::kNone);
  if (head && kept) note_unknown(block, known);
  return head;
}

void H2ClientDecoder::begin(Block kind) {
  rules_.begin(kind);
  head_ = {};
}

const H2ClientDecoder::Head* H2ClientDecoder::add(std::string_view piece, BlockRest rest) {
  if (rest == BlockRest::kFollows) forget();
  const bool good = inflate_block(inflater_.get(), piece, rest, [&](std::string_view name, std::string_view value) {
    field(name, value);
    return true;
  });
  if (!good) return nullptr;
  head_.well_formed = rules_.well_formed();
  head_.status = rules_.status();
  head_.content_length = rules_.content_length();
  return &head_;
}

// Fields beyond `most` are only counted: an octet can name 4 KiB of the table, which would be looked at each time.
void H2ClientDecoder::field(std::string_view name, std::string_view value) {
  if (head_.bytes > most_) {
    head_.bytes += name.size() + value.size() + kCostOfField;
    return;
  }
  if (rules_.field(name, value) != H2ClientHeadRules::Field::kKept) return;
  head_.bytes += name.size() + value.size() + kCostOfField;
  if (name[0] != ':' && head_.bytes <= most_) head_.fields.add(name, trim(value));
}

// It is worth keeping where it is the last one again.
void H2ClientDecoder::note_unknown(std::string_view block, KnownOfKind& known) {
  if (!head_.well_formed || block.size() > kMostBlock || head_.bytes > kMostText) return;
  if (known.last != block) {
    known.last = block;
    return;
  }
  if (known.list.size() < kMost)
    known.list.push_back({std::string(block), head_});
  else
    known.list[known.replace++ % kMost] = {std::string(block), head_};
}

void H2ClientDecoder::forget() {
  for (KnownOfKind& known : known_) known.list.clear(), known.last.clear();
}

}  // namespace weir::wire
