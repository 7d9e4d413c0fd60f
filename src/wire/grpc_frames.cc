#include "wire/grpc_frames.h"

#include <algorithm>
#include <string>

#include "base/memory_ledger.h"
#include "wire/body_growth.h"

namespace weir::wire {

std::array<std::byte, kGrpcPrefix> grpc_prefix(GrpcFlag flag, uint32_t length) {
  return {std::byte(flag), std::byte(length >> 24), std::byte(length >> 16), std::byte(length >> 8), std::byte(length)};
}

Deframer::Step Deframer::next(std::span<const std::byte>& in) {
  if (!error_.ok()) return Step::kFailed;
  if (!block_) {
    if (Step step = read_prefix(in); step != Step::kMore) return step;
    if (!block_) return Step::kMore;
  }
  return fill(in);
}

std::span<std::byte> Deframer::receive_buffer() {
  if (!block_) return {};
  return {block_.data() + block_.size(), std::min(block_.room(), size_t(length_) - block_.size())};
}

Deframer::Step Deframer::fill(std::span<const std::byte>& in) {
  while (!in.empty()) {
    size_t n = std::min({in.size(), size_t(length_) - block_.size(), block_.room()});
    block_.append(in.data(), n);
    in = in.subspan(n);
    if (block_.size() == length_) return Step::kMessage;
    if (in.empty()) break;
    if (Step step = widen(in.size()); step != Step::kMore) return step;
  }
  return Step::kMore;
}

// Returns kMore with block_ set once the prefix is complete: the payload comes next.
Deframer::Step Deframer::read_prefix(std::span<const std::byte>& in) {
  if (have_ < kGrpcPrefix) {
    size_t n = std::min(in.size(), kGrpcPrefix - have_);
    std::copy_n(in.begin(), n, prefix_.begin() + have_);
    have_ += uint32_t(n);
    in = in.subspan(n);
    // A bad flag is known from the first byte, before a peer that stops there could keep us waiting.
    if (have_ > 0 && prefix_[0] > std::byte{1})
      return fail(base::Code::kInternal,
                  "a message's frame has the invalid flag " + std::to_string(uint8_t(prefix_[0])));
    if (have_ < kGrpcPrefix) return Step::kMore;
  }
  return open_payload(in.size());
}

// `at_hand`: how many bytes of the stream have come and are not taken yet.
Deframer::Step Deframer::open_payload(size_t at_hand) {
  auto at = [&](size_t i) { return uint32_t(prefix_[i]); };
  length_ = at(1) << 24 | at(2) << 16 | at(3) << 8 | at(4);
  if (length_ > max_)
    return fail(base::Code::kResourceExhausted, "message of " + std::to_string(length_) +
                                                    " bytes is over the limit of " + std::to_string(max_) + " bytes");
  if (length_ == 0) return Step::kMessage;
  uint64_t bytes = grown(slabs_, at_hand, length_);
  block_ = base::Block(slab(std::min<uint64_t>(bytes, length_)));
  return block_ ? Step::kMore : starved(bytes);
}

// `bytes`: as many as the pool did not have.
Deframer::Step Deframer::starved(uint64_t bytes) {
  wanted_ = bytes;
  if (!base::wait_in_vain(slabs_, size_t(bytes))) return Step::kStarved;
  block_ = {};
  error_ =
      base::overloaded("there is no memory for a message of " + std::to_string(length_) + " bytes; try again later");
  return Step::kFailed;
}

base::Slab* Deframer::slab(uint64_t bytes) {
  bool part = compressed() || bytes < length_;
  return owner_.take(slabs_, bytes, part ? BodyOwner::Size::kPart : BodyOwner::Size::kWhole);
}

// A compressed message that gets no slab for a part may take one for the whole, of what the pool keeps for those.
Deframer::Step Deframer::widen(size_t at_hand) {
  uint64_t came = block_.size() + std::min<uint64_t>(at_hand, length_ - block_.size());
  uint64_t bytes = grown(slabs_, came, length_);
  base::Block wider(slab(bytes));
  if (!wider && compressed() && bytes == length_)
    wider = base::Block(owner_.take(slabs_, bytes, BodyOwner::Size::kWhole));
  if (!wider) return starved(bytes);
  wider.append(block_.data(), block_.size());
  block_ = std::move(wider);
  return Step::kMore;
}

base::Bytes Deframer::take() {
  have_ = 0;
  return block_.freeze();
}

Deframer::Step Deframer::fail(base::Code code, std::string text) {
  error_ = base::failure(code, std::move(text));
  return Step::kFailed;
}

}  // namespace weir::wire
