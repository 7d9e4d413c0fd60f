#include "wire/h2_feed.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/release.h"

namespace weir::wire {
namespace {

constexpr size_t kHeadBytes = 9;
constexpr uint8_t kEndStream = 0x1, kEndHeaders = 0x4;

size_t length_of(std::string_view head) {
  return size_t(uint8_t(head[0])) << 16 | size_t(uint8_t(head[1])) << 8 | uint8_t(head[2]);
}
bool has_block(std::string_view head) {
  const auto type = H2Frame(head[3]);
  return type == H2Frame::kHeaders || type == H2Frame::kContinuation || type == H2Frame::kPushPromise;
}
// A block and nothing else: no padding, no priority, no frame that continues it.
bool is_bare(std::string_view head) {
  return H2Frame(head[3]) == H2Frame::kHeaders && (uint8_t(head[4]) & ~kEndStream) == kEndHeaders;
}

}  // namespace

ssize_t H2Feed::feed(std::string_view bytes, size_t until_head) {
  if (until_head == FrameWalker::kInsideHead) {
    forget();
    return give(bytes);
  }
  go_on_with_block(bytes.substr(0, until_head));
  size_t given = 0, at = until_head;
  while (at < bytes.size() && bytes.size() - at >= kHeadBytes) {
    const std::string_view head = bytes.substr(at, kHeadBytes);
    const size_t size = kHeadBytes + length_of(head);
    if (has_block(head)) {
      if (ssize_t n = give(bytes.substr(given, at - given)); n < 0) return n;
      given = at;
      if (size > bytes.size() - at) {
        cut_block(bytes.substr(at), size);
        break;
      }
      if (ssize_t n = give_head(bytes.substr(at, size)); n < 0) return n;
      given = at + size;
    }
    at += size;
  }
  return give(bytes.substr(given));
}

ssize_t H2Feed::give(std::string_view bytes) {
  if (bytes.empty()) return 0;
  return nghttp2_session_mem_recv(connection_.session(), reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

ssize_t H2Feed::give_head(std::string_view frame) {
  if (!is_bare(frame)) {
    forget();
    return give(frame);
  }
  if (!known_) {
    if (!std::exchange(came_, true)) return give(frame);
    known_ = std::make_unique<H2KnownHeads>(ids_);
  }
  const std::string_view block = frame.substr(kHeadBytes);
  if (const auto* head = known_->find(block)) return give_known(frame, *head);
  if (known_->came(block)) receiver_.learn_head(*known_, block);
  const ssize_t n = give(frame);
  receiver_.read_head();
  charge();
  return n;
}

ssize_t H2Feed::give_known(std::string_view frame, const H2KnownHeads::Head& head) {
  std::array<char, kHeadBytes> empty;
  std::memcpy(empty.data(), frame.data(), kHeadBytes);
  empty[0] = empty[1] = empty[2] = 0;  // its length
  receiver_.repeat_head(head);
  const ssize_t n = give({empty.data(), empty.size()});
  receiver_.read_head();
  return n;
}

// The library gets it bit by bit. It is kept aside to see what it does to the table.
void H2Feed::cut_block(std::string_view frame, size_t size) {
  if (!known_) return;
  if (!is_bare(frame) || size - kHeadBytes > H2KnownHeads::kMostBlock) return forget();
  cut_ = frame.substr(kHeadBytes);
  missing_ = size - frame.size();
}

void H2Feed::go_on_with_block(std::string_view bytes) {
  if (missing_ == 0) return;
  cut_ += bytes;
  missing_ -= std::min(missing_, bytes.size());
  if (missing_ > 0) return;
  if (known_) known_->came(cut_);
  cut_.clear();
}

void H2Feed::forget() {
  missing_ = 0;
  cut_.clear();
  if (!known_) return;
  known_->forget();
  charge();
}

void H2Feed::drop() {
  base::release(cut_);
  missing_ = 0;
  known_.reset();
  came_ = false;
  charge();
}

// Nothing is kept that there is no room for.
void H2Feed::charge() {
  const uint64_t held = known_ ? sizeof(H2KnownHeads) + known_->bytes() : 0;
  if (held < charged_) streams_.heads().give(std::exchange(charged_, held) - held);
  if (held == charged_) return;
  if (!streams_.heads().take(held - charged_)) return drop();
  charged_ = held;
}

}  // namespace weir::wire
