#include <string>

#include <gtest/gtest.h>

#include "wire/guard.h"
#include "wire/h2_frame_walker.h"

namespace weir::wire {
namespace {

TEST(FrameWalker, ReadsAllOfAHead) {
  auto walked = [](std::string bytes) {
    FrameWalker walker(0);
    bool found = false;
    EXPECT_EQ(walker.walk(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), found), bytes.size());
    EXPECT_TRUE(found);
    return walker;
  };
  auto large = walked(std::string("\x01\x02\x03\x07\x05\x81\x02\x03\x04", 9)).head();
  EXPECT_EQ(large.length, 0x010203u);
  EXPECT_EQ(large.type, H2Frame::kGoaway);
  EXPECT_EQ(large.flags, 5);
  EXPECT_EQ(large.stream, 0x01020304) << "without the reserved bit";
  auto priority = walked(std::string("\0\0\x05\x02\0\0\0\0\x07\x81\x02\x03\x04", 13)).head();
  EXPECT_EQ(priority.depends_on, 0x01020304);
  EXPECT_TRUE(walked(std::string("\0\0\x04\0\x08\0\0\0\x07\x03", 10)).head().only_padding);
  EXPECT_TRUE(walked(std::string("\0\0\x04\0\x08\0\0\0\x07\x09", 10)).head().only_padding) << "more than there is";
  EXPECT_FALSE(walked(std::string("\0\0\x04\0\x08\0\0\0\x07\x02", 10)).head().only_padding);
  EXPECT_TRUE(walked(std::string("\0\0\x01\x01\0\0\0\0\x07", 9)).inside()) << "a header block is open";
  EXPECT_FALSE(walked(std::string("\0\0\0\x01\x04\0\0\0\x07", 9)).inside());
  EXPECT_FALSE(walked(std::string("\0\0\x02\0\0\0\0\0\x07", 9)).inside()) << "DATA may wait";
  EXPECT_TRUE(walked(std::string("\0\0\x08\x06\0\0\0\0\0", 9)).inside());
}

TEST(FrameWalker, FindsTheSameFramesHoweverTheBytesAreSplit) {
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  auto add = [&](uint32_t n, uint8_t type, uint8_t flags, std::string payload) {
    bytes += {char(n >> 16), char(n >> 8), char(n), char(type), char(flags), 0, 0, 0, 7};
    bytes += payload;
  };
  add(0, 4, 0, "");
  add(5, 0, 0, "hello");
  add(4, 0, 8, std::string("\3\0\0\0", 4));  // padding only
  add(4, 0, 8, std::string("\2x\0\0", 4));
  add(3, 1, 4, "abc");
  add(1, 9, 0, "x");
  auto walk = [&](size_t piece) {
    FrameWalker walker(24);
    std::string seen;
    for (size_t at = 0; at < bytes.size();) {
      size_t n = std::min(piece, bytes.size() - at), used = 0;
      while (used < n) {
        bool found = false;
        used += walker.walk(reinterpret_cast<const std::byte*>(bytes.data()) + at + used, n - used, found);
        const FrameHead& h = walker.head();
        if (found) seen += std::to_string(int(h.type)) + ":" + std::to_string(h.length) + (h.only_padding ? "p " : " ");
      }
      at += n;
    }
    return seen;
  };
  EXPECT_EQ(walk(bytes.size()), "4:0 0:5 0:4p 0:4 1:3 9:1 ");
  for (size_t piece = 1; piece < bytes.size(); ++piece) EXPECT_EQ(walk(piece), walk(bytes.size())) << piece;
}

// Eight times as much as the payload and a mebibyte is allowed, and no byte more.
TEST(Guard, ControlFramesAreAllowedUpToTheirShareOfTheBytes) {
  constexpr uint64_t kAllowed = uint64_t(8) << 20;
  for (uint64_t last : {kAllowed + 7, kAllowed + 8}) {
    Limits limits;
    const base::Time now = base::Time(std::chrono::seconds(1000));
    Guard guard(limits, now);
    // Frames of a type that nobody knows, and a PING that makes up `last` with what they and itself take.
    const uint64_t ping = 9 + 8, frames = 8;
    const uint64_t each = (last - ping) / frames, rest = (last - ping) % frames;
    for (uint64_t i = 0; i < frames; ++i)
      ASSERT_TRUE(
          guard.frame(FrameHead{.length = uint32_t(each - 9 + (i == 0 ? rest : 0)), .type = H2Frame(0xbb)}, now))
          << i;
    EXPECT_EQ(guard.frame(FrameHead{.length = 8, .type = H2Frame::kPing}, now), last == kAllowed + 7) << last;
  }
}

}  // namespace
}  // namespace weir::wire
