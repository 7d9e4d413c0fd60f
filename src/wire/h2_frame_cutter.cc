#include "wire/h2_frame_cutter.h"

#include <algorithm>

namespace weir::wire {

H2FrameCutter::Step H2FrameCutter::next(std::string_view& bytes) {
  if (given_) {
    given_ = false;
    kept_.clear();
  }
  if (!at_end()) return bytes.empty() ? Step::kMore : go_on_with_data(bytes);
  return kept_.empty() ? begin(bytes) : go_on(bytes);
}

H2FrameCutter::Step H2FrameCutter::begin(std::string_view& bytes) {
  if (bytes.size() < kH2FrameHead) return go_on(bytes);
  head_ = read_frame_head(bytes.data());
  if (head_.length > largest_) return Step::kTooLarge;
  if (head_.type == H2Frame::kData) {
    bytes.remove_prefix(kH2FrameHead);
    return begin_data();
  }
  if (bytes.size() - kH2FrameHead < head_.length) return go_on(bytes);
  payload_ = bytes.substr(kH2FrameHead, head_.length);
  bytes.remove_prefix(kH2FrameHead + head_.length);
  return Step::kFrame;
}

// A frame is kept until it is complete.
H2FrameCutter::Step H2FrameCutter::go_on(std::string_view& bytes) {
  auto take_up_to = [&](size_t size) {
    const size_t n = std::min(bytes.size(), size - kept_.size());
    kept_ += bytes.substr(0, n);
    bytes.remove_prefix(n);
    return kept_.size() == size;
  };
  if (kept_.size() < kH2FrameHead) {
    if (!take_up_to(kH2FrameHead)) return Step::kMore;
    head_ = read_frame_head(kept_.data());
    if (head_.length > largest_) return Step::kTooLarge;
    if (head_.type == H2Frame::kData) {
      kept_.clear();
      return begin_data();
    }
  }
  if (!take_up_to(kH2FrameHead + head_.length)) return Step::kMore;
  payload_ = std::string_view(kept_).substr(kH2FrameHead);
  given_ = true;
  return Step::kFrame;
}

H2FrameCutter::Step H2FrameCutter::begin_data() {
  content_ = head_.length;
  if (!head_.padded()) return Step::kDataHead;
  if (content_ == 0) return Step::kBroken;
  pad_length_ = true;
  return Step::kDataHead;
}

H2FrameCutter::Step H2FrameCutter::go_on_with_data(std::string_view& bytes) {
  if (pad_length_) {
    padding_ = uint8_t(bytes[0]);
    if (padding_ > content_ - 1) return Step::kBroken;
    content_ -= 1 + padding_;
    pad_length_ = false;
    payload_ = bytes.substr(0, 1);
    bytes.remove_prefix(1);
    return Step::kPadding;
  }
  const Step step = content_ > 0 ? Step::kContent : Step::kPadding;
  size_t& left = content_ > 0 ? content_ : padding_;
  payload_ = bytes.substr(0, left);
  bytes.remove_prefix(payload_.size());
  left -= payload_.size();
  return step;
}

}  // namespace weir::wire
