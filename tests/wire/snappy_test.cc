#include "wire/snappy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace weir::wire {
namespace {

std::string little(uint64_t n, size_t octets) {
  std::string out;
  for (size_t i = 0; i < octets; ++i) out += char(n >> (8 * i));
  return out;
}
std::string varint(uint64_t n) {
  std::string out;
  for (; n >= 128; n >>= 7) out += char(n | 128);
  return out += char(n);
}
std::string literal(std::string_view text) {
  const size_t n = text.size() - 1, octets = n < 60 ? 0 : n < 256 ? 1 : n < 65'536 ? 2 : 3;
  return char((octets == 0 ? n : 59 + octets) << 2) + little(n, octets) + std::string(text);
}
std::string copy(size_t kind, size_t offset, size_t n) {
  if (kind == 1) return char(offset >> 8 << 5 | (n - 4) << 2 | 1) + little(offset, 1);
  return char((n - 1) << 2 | kind) + little(offset, kind == 2 ? 2 : 4);
}

struct Made {
  std::string text;
  bool done = false;
  size_t steps = 0;
};
Made decode(std::string_view coded, size_t work = SIZE_MAX) {
  const std::vector<std::byte> exactly(std::as_bytes(std::span(coded)).begin(), std::as_bytes(std::span(coded)).end());
  SnappyDecoder decoder(exactly);
  if (decoder.broken()) return {};
  std::vector<std::byte> out(decoder.size());
  Made made;
  size_t n = 0;
  while (!decoder.broken() && !decoder.done()) n += decoder.step(out.data(), work), ++made.steps;
  made.done = decoder.done();
  made.text.assign(reinterpret_cast<const char*>(out.data()), n);
  return made;
}

// Elements of all kinds, and what they are.
struct Random {
  explicit Random(unsigned seed) : random(seed) {
    while (text.size() < 300'000) add();
    coded = varint(text.size()) + coded;
  }
  void add() {
    if (text.empty() || random() % 3 == 0) {
      std::string some(random() % 4 == 0 ? 1 + random() % 70'000 : 1 + random() % 90, char('a' + random() % 26));
      coded += literal(some), text += some;
      return;
    }
    const size_t kind = 1 + random() % 3, n = kind == 1 ? 4 + random() % 8 : 1 + random() % 64;
    const size_t most = kind == 1 ? 2047 : kind == 2 ? 65'535 : text.size();
    const size_t offset =
        1 + random() % (random() % 2 == 0 ? std::min<size_t>(text.size(), 9) : std::min(text.size(), most));
    coded += copy(kind, offset, n);
    for (size_t i = 0; i < n; ++i) text += text[text.size() - offset];
  }
  std::mt19937 random;
  std::string coded, text;
};

TEST(Snappy, MessagesAreDecodedInStepsOfAnySize) {
  EXPECT_TRUE(decode(varint(0)).done);
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Random one(seed);
    for (size_t work : {size_t(1), size_t(100), size_t(64 << 10), SIZE_MAX}) {
      const Made made = decode(one.coded, work);
      ASSERT_TRUE(made.done) << seed;
      ASSERT_EQ(made.text, one.text) << seed;
      EXPECT_EQ(made.steps == 1, work == SIZE_MAX);
    }
  }
}

TEST(Snappy, WhatIsBrokenIsNotDone) {
  const std::string good = varint(10) + literal("abcd") + copy(1, 4, 6);
  ASSERT_EQ(decode(good).text, "abcdabcdab");
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(decode(good.substr(0, n)).done) << n;
  EXPECT_FALSE(decode(good + literal("x")).done) << "more than it says";
  EXPECT_FALSE(decode(varint(11) + good.substr(1)).done) << "less";
  EXPECT_FALSE(decode(varint(10) + literal("abcd") + copy(1, 0, 6)).done);
  EXPECT_FALSE(decode(varint(10) + literal("abcd") + copy(2, 5, 6)).done) << "before its beginning";
  EXPECT_FALSE(decode(varint(10) + literal("abcd") + copy(3, UINT32_MAX, 6)).done);
  EXPECT_FALSE(decode(varint(10) + copy(1, 1, 10)).done);
  EXPECT_FALSE(decode(varint(10) + "\xfc\xff\xff\xff\xff" + "abcdefghij").done) << "a literal of 4 GiB";
  EXPECT_FALSE(decode("\xff\xff\xff\xff\xff\xff").done);
  std::mt19937 random(7);
  const Random one(3);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = one.coded.substr(0, 2000);
    for (int j = 0; j < 3; ++j) bad[random() % 40] = char(random());
    (void)decode(bad, 500);
  }
}

TEST(Snappy, ALengthThatCannotBeTrueCostsNothing) {
  const std::string lie = varint(1 << 30) + literal("abc");
  EXPECT_TRUE(SnappyDecoder(std::as_bytes(std::span(lie))).broken());
}

// The smallest elements that there are.
TEST(Snappy, AStepTakesNoLongerForSmallElements) {
  std::string coded = varint(1 << 20);
  for (int i = 0; i < 1 << 20; ++i) coded += std::string_view("\0a", 2);
  SnappyDecoder decoder(std::as_bytes(std::span(coded)));
  std::vector<std::byte> out(decoder.size());
  const std::clock_t from = std::clock();
  const size_t n = decoder.step(out.data(), 512 << 10);
  EXPECT_LT(std::clock() - from, CLOCKS_PER_SEC / 50);
  EXPECT_LE(n, size_t(64) << 10);
}

}  // namespace
}  // namespace weir::wire
