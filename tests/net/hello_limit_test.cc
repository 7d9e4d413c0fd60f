#include "net/hello_limit.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::net {
namespace {

std::string record(char type, const std::string& fragment) {
  return std::string{type, 3, 1, char(fragment.size() >> 8), char(fragment.size())} + fragment;
}
// The beginning of a message that says it is so long, in a record of its own.
std::string message(char type, size_t length, size_t come = 10) {
  return record(22, std::string{type, char(length >> 16), char(length >> 8), char(length)} + std::string(come, 'x'));
}
bool allows(HelloLimit& limit, const std::string& bytes) { return limit.allows(std::as_bytes(std::span(bytes))); }
// In one piece, and byte by byte, which has to come to the same.
bool allows(const std::string& bytes) {
  HelloLimit whole, split;
  bool by_bytes = true;
  for (char c : bytes) by_bytes = by_bytes && allows(split, std::string(1, c));
  EXPECT_EQ(allows(whole, bytes), by_bytes);
  return by_bytes;
}

TEST(HelloLimit, AHelloOf16KiBIsAllowedAndOneByteMoreIsNot) {
  EXPECT_TRUE(allows(message(1, 300)));
  EXPECT_TRUE(allows(message(1, 16384)));
  EXPECT_FALSE(allows(message(1, 16385)));
  EXPECT_FALSE(allows(message(1, 0xffffff)));
}

TEST(HelloLimit, AHeaderOverTwoRecordsIsNotAllowed) {
  for (size_t size = 0; size < 4; ++size) EXPECT_FALSE(allows(record(22, std::string("\x01\0\0\0", size)))) << size;
  EXPECT_TRUE(allows(record(22, std::string("\x01\0\0\x20", 4))));
}

TEST(HelloLimit, OtherMessagesAndWhatIsBehindAHelloAreOpenSslsToRefuse) {
  EXPECT_TRUE(allows(message(16, 0xffff)));
  EXPECT_TRUE(allows(record(23, std::string("\x01\xff\xff\xff", 4)) + message(1, 300)));
  EXPECT_TRUE(allows(message(1, 300) + std::string("\xff", 1) + message(1, 0xffff))) << "one header is looked at";
}

TEST(HelloLimit, ASecondHelloIsLookedAtBehindWhatMayStandBeforeIt) {
  for (size_t length : {16384, 16385}) {
    HelloLimit limit;
    ASSERT_TRUE(allows(limit, message(1, 300)));
    limit.expect_another();
    ASSERT_TRUE(allows(limit, record(20, "\x01")));
    ASSERT_TRUE(allows(limit, record(23, std::string("\x01\xff\xff\xff", 4)) + record(21, "\x01\x0a")));
    EXPECT_EQ(allows(limit, message(1, length)), length == 16384) << length;
  }
}

}  // namespace
}  // namespace weir::net
