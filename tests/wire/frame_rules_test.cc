#include "wire/frame_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "wire/h2_frame_walker.h"

namespace weir::wire {
namespace {

constexpr uint8_t kEnd = 1;

FrameHead frame(H2Frame type, int32_t stream, uint8_t flags = 0) { return {9, type, flags, stream, false, -1}; }

TEST(FrameRules, AStreamMayGoOnUntilItsClientEndsIt) {
  FrameRules rules;
  EXPECT_FALSE(rules.check(frame(H2Frame::kHeaders, 1)));
  EXPECT_FALSE(rules.check(frame(H2Frame::kData, 1)));
  EXPECT_FALSE(rules.check(frame(H2Frame::kHeaders, 1, kEnd)));  // trailers
  for (H2Frame type : {H2Frame::kWindowUpdate, H2Frame::kPriority, H2Frame::kRstStream})
    EXPECT_FALSE(rules.check(frame(type, 1)));
  for (H2Frame type : {H2Frame::kHeaders, H2Frame::kData}) {
    Verdict verdict = rules.check(frame(type, 1));
    EXPECT_EQ(verdict.code, H2Error::kStreamClosed);
    EXPECT_EQ(verdict.reason, reason::kH2StreamId);
  }
}

TEST(FrameRules, AResetEndsItToo) {
  FrameRules rules;
  rules.check(frame(H2Frame::kHeaders, 1));
  rules.check(frame(H2Frame::kHeaders, 3));
  EXPECT_FALSE(rules.check(frame(H2Frame::kRstStream, 1)));
  EXPECT_FALSE(rules.check(frame(H2Frame::kData, 3)));
  EXPECT_TRUE(rules.check(frame(H2Frame::kData, 1)));
}

TEST(FrameRules, OfOldStreamsNothingIsKnown) {
  FrameRules rules;
  rules.check(frame(H2Frame::kHeaders, 1, kEnd));
  rules.check(frame(H2Frame::kHeaders, 3));
  for (int32_t id = 5; id < 1 + 2 * 128; id += 2) EXPECT_FALSE(rules.check(frame(H2Frame::kHeaders, id, kEnd)));
  EXPECT_TRUE(rules.check(frame(H2Frame::kData, 1)));
  EXPECT_FALSE(rules.check(frame(H2Frame::kHeaders, 1 + 2 * 128)));
  EXPECT_FALSE(rules.check(frame(H2Frame::kData, 1)));
  EXPECT_TRUE(rules.check(frame(H2Frame::kData, 5)));
  EXPECT_FALSE(rules.check(frame(H2Frame::kData, 3)));
  EXPECT_FALSE(rules.check(frame(H2Frame::kHeaders, 0x7fffffff, kEnd)));
  EXPECT_FALSE(rules.check(frame(H2Frame::kData, 5)));
  EXPECT_TRUE(rules.check(frame(H2Frame::kData, 0x7fffffff)));
}

TEST(FrameRules, IdsThatAreNoClientsAreTheLibrarys) {
  FrameRules rules;
  for (int32_t id : {0, 2, 7}) {
    EXPECT_FALSE(rules.check(frame(H2Frame::kData, id, kEnd)));
    EXPECT_FALSE(rules.check(frame(H2Frame::kRstStream, id)));
  }
  EXPECT_FALSE(rules.check(frame(H2Frame::kHeaders, 2, kEnd)));
  EXPECT_FALSE(rules.check(frame(H2Frame::kHeaders, 2, kEnd)));
  EXPECT_FALSE(rules.check(frame(H2Frame::kHeaders, 7)));
}

TEST(FrameRules, PriorityBelongsToAStreamAndNotToItself) {
  FrameRules rules;
  auto priority = [&](int32_t stream, int32_t depends_on) {
    return rules.check({5, H2Frame::kPriority, 0, stream, false, depends_on}).code;
  };
  EXPECT_EQ(priority(1, 0), H2Error::kNone);
  EXPECT_EQ(priority(3, 1), H2Error::kNone);
  EXPECT_EQ(priority(0, 1), H2Error::kProtocol);
  EXPECT_EQ(priority(1, 1), H2Error::kProtocol);
}

TEST(FrameRules, TheWalkerReadsDependenciesHoweverTheyAreSplit) {
  const std::string bytes("\0\0\5\2\0\0\0\0\3\x80\0\0\1\7\0\0\4\2\0\0\0\0\5\0\0\0\5", 27);
  for (size_t bite = 1; bite <= bytes.size(); ++bite) {
    FrameWalker walker(0);
    std::vector<int32_t> named;
    for (size_t at = 0; at < bytes.size();) {
      bool found = false;
      size_t end = std::min(bytes.size(), at + bite);
      at += walker.walk(reinterpret_cast<const std::byte*>(bytes.data()) + at, end - at, found);
      if (found) named.push_back(walker.head().depends_on);
    }
    EXPECT_EQ(named, (std::vector<int32_t>{1, -1})) << bite;
  }
}

}  // namespace
}  // namespace weir::wire
