// The body of an origin's answer: how it grows.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "engines/forward/answer_body.h"
#include "support/fake_wire.h"

namespace weir::forward {
namespace {

using base::Bytes;

std::string text_of(size_t n) {
  std::mt19937_64 random(n);
  std::string out(n, 0);
  for (char& c : out) c = char(random());
  return out;
}

// In pieces of up to `most` bytes, half of them into the receive buffer.
Bytes gathered(AnswerBody& body, std::string_view text, size_t most) {
  std::mt19937_64 random(1);
  while (!text.empty()) {
    const auto bytes = std::as_bytes(std::span(text));
    size_t n = std::min<size_t>(text.size(), 1 + random() % most);
    const auto to = body.receive_buffer();
    if (random() % 2 == 0 && !to.empty()) {
      n = std::min(n, to.size());
      std::copy_n(bytes.begin(), n, to.begin());
      EXPECT_EQ(body.append(to.first(n)), AnswerBody::Fate::kTaken);
    } else {
      EXPECT_EQ(body.append(bytes.first(n)), AnswerBody::Fate::kTaken);
    }
    text.remove_prefix(n);
  }
  return body.take();
}

TEST(AnswerBody, WhatComesIsThereWhateverWasAnnounced) {
  const std::string text = text_of(9'000'000);
  for (const char* announced : {"", "9000000", "8999999", "9000001", "7", "100000000000", "x", "-1"})
    for (size_t size : {size_t(0), size_t(1), size_t(4095), size_t(16'385), size_t(2'000'000), text.size()}) {
      AnswerBody body(base::heap(), 1 << 30);
      body.expect(announced);
      const std::string_view wanted = std::string_view(text).substr(0, size);
      EXPECT_TRUE(gathered(body, wanted, 256 << 10).view() == wanted) << announced << ' ' << size;
    }
}

TEST(AnswerBody, AnEmptyPieceIsNothing) {
  AnswerBody body(base::heap(), 1 << 20);
  EXPECT_EQ(body.append({}), AnswerBody::Fate::kTaken);
  EXPECT_TRUE(body.take().empty());
}

TEST(AnswerBody, AWholeAnswerOfKnownLengthHasASlabOfThatLength) {
  support::FakeSlabs slabs;
  AnswerBody body(slabs, 1 << 20);
  body.expect("300");
  const std::string text = text_of(300);
  ASSERT_EQ(body.append(std::as_bytes(std::span(text))), AnswerBody::Fate::kTaken);
  EXPECT_EQ(slabs.sizes, std::vector<size_t>{300});
}

TEST(AnswerBody, NoMoreThanItsLimitIsTaken) {
  const std::string text = text_of(100'000);
  AnswerBody body(base::heap(), 99'999);
  body.expect("50");
  EXPECT_EQ(body.append(std::as_bytes(std::span(text)).first(99'999)), AnswerBody::Fate::kTaken);
  EXPECT_EQ(body.append(std::as_bytes(std::span(text)).last(1)), AnswerBody::Fate::kLarge);
}

// A length costs nothing before its bytes have come.
TEST(AnswerBody, MemoryIsForWhatHasCome) {
  support::FakeSlabs slabs;
  AnswerBody body(slabs, uint64_t(1) << 30);
  body.expect("1000000000");
  const std::string text = text_of(50'000);
  ASSERT_EQ(body.append(std::as_bytes(std::span(text))), AnswerBody::Fate::kTaken);
  for (size_t size : slabs.sizes) EXPECT_LT(size, 1u << 20);
}

// The larger slab has all before the old one is full, so that a piece never waits for all that came before.
TEST(AnswerBody, ItMovesWhileItFills) {
  AnswerBody body(base::heap(), 1 << 30);
  const std::string piece = text_of(100'000);
  size_t least = SIZE_MAX;
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(body.append(std::as_bytes(std::span(piece))), AnswerBody::Fate::kTaken);
    if (i > 10) least = std::min(least, body.receive_buffer().size());
  }
  EXPECT_GE(least, piece.size());
}

}  // namespace
}  // namespace weir::forward
