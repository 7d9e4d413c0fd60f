#include "wire/grpc_frames.h"

#include <algorithm>
#include <string>

namespace weir::wire {

std::array<std::byte, kGrpcPrefix> grpc_prefix(GrpcFlag flag, uint32_t length) {
  return {std::byte(flag), std::byte(length >> 24), std::byte(length >> 16), std::byte(length >> 8), std::byte(length)};
}

Deframer::Step Deframer::next(std::span<const std::byte>& in) {
  if (!error_.ok()) return Step::kFailed;
  if (have_ < kGrpcPrefix) {
    size_t n = std::min(in.size(), kGrpcPrefix - have_);
    std::copy_n(in.begin(), n, prefix_.begin() + have_);
    have_ += uint32_t(n);
    in = in.subspan(n);
    // A bad flag is known from the first byte, before a peer that stops there could keep us waiting.
    if (have_ > 0 && prefix_[0] > std::byte{1})
      return fail(base::Code::kInternal, "gRPC frame with the invalid flag " + std::to_string(uint8_t(prefix_[0])));
    if (have_ < kGrpcPrefix) return Step::kMore;
  }
  if (!block_)
    if (Step step = open_payload(); step != Step::kMore) return step;
  size_t n = std::min(in.size(), size_t(length_) - block_.size());
  block_.append(in.data(), n);
  in = in.subspan(n);
  return block_.size() == length_ ? Step::kMessage : Step::kMore;
}

Deframer::Step Deframer::open_payload() {
  auto at = [&](size_t i) { return uint32_t(prefix_[i]); };
  length_ = at(1) << 24 | at(2) << 16 | at(3) << 8 | at(4);
  if (length_ > max_)
    return fail(base::Code::kResourceExhausted, "message of " + std::to_string(length_) +
                                                    " bytes is over the limit of " + std::to_string(max_) + " bytes");
  if (length_ == 0) return Step::kMessage;
  block_ = base::Block(slabs_.take(length_));
  return block_ ? Step::kMore : Step::kStarved;
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
