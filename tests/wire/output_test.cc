// The bytes that wait for a socket, under HTTP/1 and HTTP/2.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "wire/h2_output.h"
#include "wire/output.h"

namespace weir::wire {
namespace {

// The same names for both.
struct Output1 : Output {
  void text(std::string_view s) { append(s); }
  void piece(base::Bytes b) { append(std::move(b)); }
  uint64_t ever() const { return total(); }
  uint64_t gone() const { return sent(); }
  void take(size_t n) { consume(n); }
  void give_back() { trim(); }
};
struct Output2 : H2Output {
  void text(std::string_view s) { copy(s.data(), s.size()); }
  void piece(base::Bytes b) { refer(std::move(b)); }
  uint64_t ever() const { return put(); }
  uint64_t gone() const { return taken(); }
  void take(size_t n) { consumed(n); }
  void give_back() { shrink(); }
};

template <class T>
struct OutputTest : testing::Test {
  T out;
  std::string gathered(size_t pieces = 1000) {
    std::vector<iovec> all(pieces);
    all.resize(out.gather(all));
    std::string text;
    for (const auto& each : all) text.append(static_cast<const char*>(each.iov_base), each.iov_len);
    return text;
  }
  const void* front() {
    iovec first{};
    EXPECT_EQ(out.gather(std::span(&first, 1)), 1u);
    return first.iov_base;
  }
};
using Outputs = testing::Types<Output1, Output2>;
TYPED_TEST_SUITE(OutputTest, Outputs);

TYPED_TEST(OutputTest, IsWhatWasAppendedLessWhatWasTaken) {
  std::mt19937 random(5);
  std::string expected, letters;
  for (int i = 0; i < 20'000; ++i) letters += char('a' + i % 26);
  uint64_t ever = 0;
  for (int i = 0; i < 3000; ++i) {
    const size_t size = random() % (i % 50 == 0 ? 18'000 : 90);
    const auto text = std::string_view(letters).substr(random() % 100, size);
    random() % 3 == 0 ? this->out.piece(base::Bytes::copy_of(text)) : this->out.text(text);
    expected += text, ever += text.size();
    if (random() % 2 == 0) {
      const size_t n = random() % 4 == 0 ? expected.size() : random() % (expected.size() + 1);
      this->out.take(n);
      expected.erase(0, n);
    }
    ASSERT_EQ(this->out.size(), expected.size());
    ASSERT_EQ(this->out.empty(), expected.empty());
    ASSERT_EQ(this->out.ever(), ever);
    ASSERT_EQ(this->out.gone(), ever - expected.size());
    ASSERT_EQ(this->gathered(), expected) << i;
  }
}

TYPED_TEST(OutputTest, ManyPiecesAreGatheredAsFarAsThereIsRoom) {
  for (int i = 0; i < 200; ++i) {
    this->out.text("t");
    this->out.piece(base::Bytes::copy_of(std::string(3000, char('a' + i % 26))));
  }
  EXPECT_EQ(this->gathered(3), "t" + std::string(3000, 'a') + "t");
  for (int i = 0; i < 150; ++i) this->out.take(3001);
  EXPECT_EQ(this->gathered(2), "t" + std::string(3000, char('a' + 150 % 26)));
  EXPECT_EQ(this->out.size(), 50u * 3001);
}

TYPED_TEST(OutputTest, ItsBlockIsUsedAgainOnceAllOfItIsTaken) {
  this->out.text("first");
  const void* at = this->front();
  this->out.text(" second");
  this->out.take(12);
  for (int i = 0; i < 3; ++i) {
    this->out.text("third");
    EXPECT_EQ(this->front(), at);
    EXPECT_EQ(this->gathered(), "third");
    this->out.take(5);
  }
  this->out.give_back();
  EXPECT_TRUE(this->out.empty());
  this->out.text("after");
  EXPECT_EQ(this->gathered(), "after");
}

TYPED_TEST(OutputTest, WhatIsClearedIsGone) {
  const uint64_t before = this->out.ever();
  this->out.text("head");
  this->out.piece(base::Bytes::copy_of(std::string(5000, 'x')));
  this->out.take(2);
  this->out.clear();
  EXPECT_TRUE(this->out.empty());
  EXPECT_EQ(this->out.ever(), before + 5004);
  EXPECT_EQ(this->out.gone(), this->out.ever());
  EXPECT_EQ(this->gathered(), "");
  this->out.text("next");
  EXPECT_EQ(this->gathered(), "next");
}

// The memory that a socket was given stays as it is until the socket has taken it.
TYPED_TEST(OutputTest, MemoryThatWasGatheredDoesNotMove) {
  this->out.text("given");
  const void* at = this->front();
  for (int i = 0; i < 100; ++i) this->out.text(std::string(1000, 'x'));
  EXPECT_EQ(this->front(), at);
  EXPECT_EQ(std::string_view(static_cast<const char*>(at), 5), "given");
}

TEST(Output, SmallPiecesAreCopiedBesideTheTextBeforeThem) {
  for (auto [size, pieces] : {std::pair<size_t, size_t>(2048, 1), {2049, 2}}) {
    Output out;
    out.append("head");
    out.append(base::Bytes::copy_of(std::string(size, 'x')));
    std::vector<iovec> all(9);
    EXPECT_EQ(out.gather(all), pieces);
    EXPECT_EQ(out.size(), 4 + size);
  }
}

}  // namespace
}  // namespace weir::wire
