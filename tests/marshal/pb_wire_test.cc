#include "marshal/pb_wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "support/guarded_text.h"

namespace weir::marshal {
namespace {

bool skips_whole(std::string_view message) {
  PbReader r(message);
  while (r.next()) {
  }
  return r.ok();
}

TEST(PbWire, ReadsWhatItWrites) {
  std::string out;
  put_text(out, 1, "abc");
  put_text(out, 2, "");
  put_tag(out, 3, PbType::kVarint);
  put_varint(out, UINT64_MAX);
  PbReader r(out);
  ASSERT_TRUE(r.next());
  EXPECT_TRUE(r.is(1, PbType::kBytes));
  EXPECT_EQ(r.bytes(), "abc");
  EXPECT_EQ(r.encoded_size(), 5u);
  ASSERT_TRUE(r.next());
  EXPECT_TRUE(r.is(3, PbType::kVarint));
  EXPECT_EQ(r.number(), UINT64_MAX);
  EXPECT_FALSE(r.next());
  EXPECT_TRUE(r.ok());
  for (uint64_t v : {uint64_t(0), uint64_t(127), uint64_t(128), UINT64_MAX}) {
    std::string one;
    put_varint(one, v);
    EXPECT_EQ(one.size(), varint_size(v));
  }
}

TEST(PbWire, MalformedBytesEndIt) {
  using namespace std::string_view_literals;
  EXPECT_FALSE(skips_whole("\x0a\x05"sv));                  // length past the end
  EXPECT_FALSE(skips_whole("\x0a\xff\xff\xff\xff\x07"sv));  // 2 GiB
  EXPECT_FALSE(skips_whole("\x00"sv));                      // field 0
  EXPECT_FALSE(skips_whole("\x0e"sv));                      // type 6
  EXPECT_FALSE(skips_whole("\x0c"sv));                      // end of a group that never began
  EXPECT_FALSE(skips_whole("\x0d\x01"sv));                  // four bytes cut
  EXPECT_FALSE(skips_whole("\x08"sv));                      // no value
  EXPECT_FALSE(skips_whole("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv));
  EXPECT_FALSE(skips_whole("\x0b\x08\x01"sv));  // open group
  EXPECT_FALSE(skips_whole("\x0b\x14"sv));      // another group's end
  EXPECT_TRUE(skips_whole("\x0b\x08\x01\x0c"sv));
  EXPECT_TRUE(skips_whole(std::string(100, '\x0b') + std::string(100, '\x0c')));
  EXPECT_FALSE(skips_whole(std::string(101, '\x0b') + std::string(101, '\x0c')));
}

TEST(PbWire, AnyBytesAtAllAreSurvived) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string soup(random() % 40, '\0');
    for (char& c : soup) c = char(random());
    skips_whole(soup);
  }
}

TEST(PbWire, NothingBehindTheMessageIsLookedAt) {
  std::string message;
  put_text(message, 1, "abc");
  put_tag(message, 2, PbType::kVarint), put_varint(message, UINT64_MAX);
  put_tag(message, 3, PbType::kFixed32), message += "wxyz";
  put_tag(message, 4, PbType::kFixed64), message += "stuvwxyz";
  put_tag(message, 5, PbType::kGroup), put_tag(message, 6, PbType::kVarint), put_varint(message, 300);
  put_tag(message, 5, PbType::kEndGroup);
  const std::vector<size_t> whole{0, 5, 16, 21, 30, 35};
  for (size_t cut = 0; cut <= message.size(); ++cut) {
    const support::GuardedText text(std::string_view(message).substr(0, cut));
    EXPECT_EQ(skips_whole(text.view()), std::find(whole.begin(), whole.end(), cut) != whole.end()) << cut;
  }
  const support::GuardedText varint("\xff\xff\x01");
  for (size_t cut = 0; cut < 3; ++cut) {
    const support::GuardedText part(varint.view().substr(0, cut));
    std::string_view rest = part.view();
    uint64_t value;
    EXPECT_FALSE(take_varint(rest, value)) << cut;
  }
}

TEST(PbWire, TagsHaveThirtyTwoBitsAndVarintsTenBytes) {
  using namespace std::string_view_literals;
  EXPECT_TRUE(skips_whole("\xf8\xff\xff\xff\x0f\x01"sv)) << "the last field";
  EXPECT_FALSE(skips_whole("\x88\x80\x80\x80\x10\x01"sv)) << "field 1, were it cut to 32 bits";
  EXPECT_FALSE(skips_whole("\x0b\x88\x80\x80\x80\x10\x01\x0c"sv));
  EXPECT_FALSE(skips_whole("\x0b\x00\x01\x0c"sv)) << "field 0";
  EXPECT_FALSE(skips_whole("\x0b\x0e\x0c"sv)) << "type 6";
  EXPECT_TRUE(skips_whole("\x0b\x0d\x01\x01\x01\x01\x0c"sv));
  EXPECT_FALSE(skips_whole("\x0b\x0a\x05\x0c"sv)) << "a length past the end";
  EXPECT_TRUE(skips_whole("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv));
  EXPECT_FALSE(skips_whole("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv));
}

TEST(PbWire, AGroupIsPassedOverAsOneField) {
  std::string message("\x0b\x13\x18\x05\x14\x0c", 6);
  put_text(message, 2, "x");
  PbReader r(message);
  ASSERT_TRUE(r.next());
  EXPECT_EQ(r.field(), 1u);
  EXPECT_EQ(r.type(), PbType::kGroup);
  EXPECT_EQ(r.encoded_size(), 6u);
  ASSERT_TRUE(r.next());
  EXPECT_TRUE(r.is(2, PbType::kBytes));
  EXPECT_FALSE(r.next());
  EXPECT_TRUE(r.ok());
}

}  // namespace
}  // namespace weir::marshal
