#include "wire/h2_frame_reader.h"

#include <algorithm>

#include "wire/h2_frame_cutter.h"
#include "wire/h2_head_cache.h"

namespace weir::wire {
namespace {

constexpr uint32_t kOfGoaway = 8;  // bytes of it that say something
constexpr size_t kOfPriority = 5;
constexpr uint8_t kHasPriority = 0x20;

bool has_block(H2Frame type) { return type == H2Frame::kHeaders || type == H2Frame::kContinuation; }

int32_t stream_at(std::string_view from) {
  auto at = [&](size_t i) { return uint32_t(uint8_t(from[i])); };
  return int32_t((at(0) & 0x7f) << 24 | at(1) << 16 | at(2) << 8 | at(3));
}

}  // namespace

H2FrameReader::Step H2FrameReader::next(std::string_view& bytes) {
  if (given_) {
    given_ = false;
    kept_.clear();
  }
  switch (state_) {
    case State::kWhole: return read_whole(bytes);
    case State::kLead: return read_lead(bytes);
    case State::kPieces: return read_piece(bytes);
    case State::kHead: break;
  }
  if (kept_.empty() && bytes.size() >= kH2FrameHead) {
    head_ = read_frame_head(bytes.data());
    bytes.remove_prefix(kH2FrameHead);
    return begin();
  }
  if (!keep(bytes, kH2FrameHead)) return Step::kMore;
  head_ = read_frame_head(kept_.data());
  kept_.clear();
  return begin();
}

// True: `size` bytes of what began last are kept.
bool H2FrameReader::keep(std::string_view& bytes, size_t size) {
  const size_t n = std::min(bytes.size(), size - kept_.size());
  kept_ += bytes.substr(0, n);
  bytes.remove_prefix(n);
  return kept_.size() == size;
}

H2FrameReader::Step H2FrameReader::begin() {
  content_ = head_.length, padding_ = 0;
  whole_ = head_.type == H2Frame::kGoaway ? std::min(content_, kOfGoaway) : content_;
  first_ = false;
  depends_on_ = -1;
  state_ = state_of_frame();
  return Step::kHead;
}

// A block that its connection may know is waited for.
H2FrameReader::State H2FrameReader::state_of_frame() const {
  if (has_block(head_.type) && content_ > H2HeadCache::kMostBlock)
    return lead_size() > 0 ? State::kLead : State::kPieces;
  if (head_.type != H2Frame::kData && head_.type <= H2Frame::kContinuation) return State::kWhole;
  if (head_.type == H2Frame::kData && head_.padded()) return State::kLead;
  return content_ > 0 ? State::kPieces : State::kHead;
}

H2FrameReader::Step H2FrameReader::read_whole(std::string_view& bytes) {
  if (kept_.empty() && bytes.size() >= whole_) {
    payload_ = bytes.substr(0, whole_);
    bytes.remove_prefix(whole_);
  } else {
    if (!keep(bytes, whole_)) return Step::kMore;
    payload_ = kept_;
    given_ = true;
  }
  content_ -= whole_;
  state_ = content_ > 0 ? State::kPieces : State::kHead;
  return has_block(head_.type) ? cut_block() : Step::kControl;
}

// Takes away what leads the block, and its padding.
H2FrameReader::Step H2FrameReader::cut_block() {
  first_ = true;
  const size_t lead = lead_size();
  if (lead == 0) return Step::kBlock;
  if (payload_.size() < lead) return payload_.empty() && head_.padded() ? Step::kBroken : Step::kShort;
  const size_t padding = read_lead_of_block(payload_);
  payload_.remove_prefix(lead);
  if (padding > payload_.size()) return Step::kBroken;
  payload_.remove_suffix(padding);
  return Step::kBlock;
}

// The length of the padding, a priority.
size_t H2FrameReader::lead_size() const {
  if (head_.type != H2Frame::kHeaders) return 0;
  return (head_.padded() ? 1 : 0) + (head_.flags & kHasPriority ? kOfPriority : 0);
}

// Returns the length of the padding.
size_t H2FrameReader::read_lead_of_block(std::string_view lead) {
  const size_t padding = head_.padded() ? uint8_t(lead[0]) : 0;
  if (head_.flags & kHasPriority) depends_on_ = stream_at(lead.substr(head_.padded() ? 1 : 0));
  return padding;
}

H2FrameReader::Step H2FrameReader::read_lead(std::string_view& bytes) {
  if (content_ == 0) return Step::kBroken;
  if (head_.type == H2Frame::kData) {
    if (bytes.empty()) return Step::kMore;
    payload_ = bytes.substr(0, 1);
    bytes.remove_prefix(1);
    padding_ = uint8_t(payload_[0]);
    --content_;
  } else {
    if (!keep(bytes, lead_size())) return Step::kMore;
    padding_ = uint32_t(read_lead_of_block(kept_));
    content_ -= uint32_t(kept_.size());
    kept_.clear();
  }
  if (padding_ > content_) return Step::kBroken;
  content_ -= padding_;
  state_ = State::kPieces;
  if (head_.type != H2Frame::kData) return read_piece(bytes);
  if (at_end()) state_ = State::kHead;
  return Step::kPadding;
}

H2FrameReader::Step H2FrameReader::read_piece(std::string_view& bytes) {
  if (bytes.empty()) return Step::kMore;
  const bool content = content_ > 0;
  uint32_t& left = content ? content_ : padding_;
  payload_ = bytes.substr(0, left);
  bytes.remove_prefix(payload_.size());
  first_ = content && content_ == head_.length - lead_size() - padding_;
  left -= uint32_t(payload_.size());
  if (at_end()) state_ = State::kHead;
  if (head_.type == H2Frame::kData) return content ? Step::kContent : Step::kPadding;
  return content && has_block(head_.type) ? Step::kBlock : Step::kNothing;
}

}  // namespace weir::wire
