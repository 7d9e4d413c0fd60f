#include "wire/coding.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "support/counted_slabs.h"
#include "support/heap_in_use.h"
#include "wire/limits.h"
#include "wire/rpc.h"

namespace weir::wire {
namespace {

using base::Bytes;

std::string noise(size_t n) {
  std::mt19937 random(7);
  std::string out(n, 0);
  for (char& c : out) c = char('a' + random() % 13);
  return out;
}

Bytes coded(Coding coding, std::string_view text) {
  Bytes piece = Bytes::copy_of(text);
  return deflate(coding, std::span(&piece, 1));
}

Inflate inflate(Coding coding, std::string_view in, std::string* out, InflateLimits limits = {}) {
  Bytes bytes;
  Inflate did = inflate_whole(coding, std::as_bytes(std::span(in)), limits, base::heap(), &bytes);
  *out = bytes.view();
  return did;
}

TEST(Coding, WhatIsDeflatedInflatesToTheSame) {
  for (Coding coding : {Coding::kGzip, Coding::kDeflate})
    for (size_t n : {size_t(0), size_t(1), size_t(5000), size_t(300000)}) {
      std::string text = noise(n), back;
      EXPECT_EQ(inflate(coding, coded(coding, text).view(), &back), Inflate::kDone);
      EXPECT_EQ(back, text);
    }
}

TEST(Coding, SeveralPiecesAreOneStream) {
  std::vector<Bytes> pieces{Bytes::copy_of("abc"), Bytes(), Bytes::copy_of("def")};
  std::string back;
  EXPECT_EQ(inflate(Coding::kGzip, deflate(Coding::kGzip, pieces).view(), &back), Inflate::kDone);
  EXPECT_EQ(back, "abcdef");
}

TEST(Coding, InputMayComeByteByByte) {
  std::string text = noise(2000);
  for (Coding coding : {Coding::kGzip, Coding::kDeflate}) {
    Bytes all = coded(coding, text);
    Inflater inflater(coding, {});
    std::string back;
    for (size_t i = 0; i < all.size(); ++i) {
      auto in = all.slice(i, 1).span();
      std::array<std::byte, 37> buffer;
      Inflate did;
      do {
        std::span<std::byte> out(buffer);
        did = inflater.step(in, out);
        back.append(reinterpret_cast<char*>(buffer.data()), buffer.size() - out.size());
      } while (did == Inflate::kFull);
      ASSERT_EQ(did, Inflate::kMore);
      EXPECT_EQ(inflater.complete(), i + 1 == all.size());
    }
    EXPECT_EQ(back, text);
  }
}

TEST(Coding, RawDeflateIsAccepted) {
  std::string text = noise(500), back;
  std::string wrapped(coded(Coding::kDeflate, text).view());
  EXPECT_EQ(inflate(Coding::kDeflate, std::string_view(wrapped).substr(2, wrapped.size() - 6), &back), Inflate::kDone);
  EXPECT_EQ(back, text);
}

TEST(Coding, GzipMembersFollowEachOther) {
  std::string two = std::string(coded(Coding::kGzip, "one ").view()) + std::string(coded(Coding::kGzip, "two").view());
  std::string back;
  EXPECT_EQ(inflate(Coding::kGzip, two, &back), Inflate::kDone);
  EXPECT_EQ(back, "one two");
}

TEST(Coding, CorruptInputIsRefused) {
  std::string good(coded(Coding::kGzip, noise(500)).view()), back;
  EXPECT_EQ(inflate(Coding::kGzip, "", &back), Inflate::kCorrupt);
  EXPECT_EQ(inflate(Coding::kGzip, "not gzip at all", &back), Inflate::kCorrupt);
  EXPECT_EQ(inflate(Coding::kGzip, good.substr(0, good.size() - 1), &back), Inflate::kCorrupt);
  EXPECT_EQ(inflate(Coding::kGzip, good + "x", &back), Inflate::kCorrupt);
  EXPECT_EQ(inflate(Coding::kDeflate, good, &back), Inflate::kCorrupt);
  std::string flipped = good;
  flipped[flipped.size() - 6] ^= 1;
  EXPECT_EQ(inflate(Coding::kGzip, flipped, &back), Inflate::kCorrupt);
  std::string zlib(coded(Coding::kDeflate, "abc").view());
  EXPECT_EQ(inflate(Coding::kDeflate, zlib + "x", &back), Inflate::kCorrupt);
}

TEST(Coding, ExactlyTheLimitFitsAndOneMoreDoesNot) {
  std::string text = noise(10000), back;
  Bytes all = coded(Coding::kGzip, text);
  EXPECT_EQ(inflate(Coding::kGzip, all.view(), &back, {10000, 100}), Inflate::kDone);
  EXPECT_EQ(inflate(Coding::kGzip, all.view(), &back, {9999, 100}), Inflate::kTooBig);
}

TEST(Coding, ABombEndsAtTheRatioNotAtTheLimit) {
  std::string zeros(10 << 20, '\0'), back;
  Bytes bomb = coded(Coding::kGzip, zeros);
  EXPECT_LT(bomb.size(), 100000u);
  EXPECT_EQ(inflate(Coding::kGzip, bomb.view(), &back), Inflate::kOverRatio);
  EXPECT_EQ(inflate(Coding::kGzip, bomb.view(), &back, {64 << 20, 2000}), Inflate::kDone);
  EXPECT_EQ(back.size(), zeros.size());
}

// Gzip makes it smaller by a factor of 130 to 170: a little noise after every 8,000 zeros, as little as is enough.
std::string text_of_ratio_150() {
  const std::string all = noise(1 << 20);
  for (size_t noisy = 1;; ++noisy) {
    std::string text;
    for (size_t i = 0; i < 500; ++i) text += all.substr(i * noisy, noisy) + std::string(8000, '\0');
    if (text.size() / coded(Coding::kGzip, text).size() < 170) return text;
  }
}

TEST(Coding, TheRatioIsAHundredUnlessItIsConfigured) {
  std::string text = text_of_ratio_150(), back;
  Bytes all = coded(Coding::kGzip, text);
  ASSERT_GT(text.size() / all.size(), 130u);
  EXPECT_EQ(inflate(Coding::kGzip, all.view(), &back), Inflate::kOverRatio);
  EXPECT_EQ(inflate(Coding::kGzip, all.view(), &back, {64 << 20, 75}), Inflate::kOverRatio);
  EXPECT_EQ(inflate(Coding::kGzip, all.view(), &back, {64 << 20, 200}), Inflate::kDone);
  EXPECT_EQ(back.size(), text.size());
  EXPECT_EQ(Limits().inflate_ratio, InflateLimits().ratio);
  EXPECT_EQ(RpcOptions().inflate_ratio, InflateLimits().ratio);
}

TEST(Coding, TheFirstHalfMebibyteHasNoRatio) {
  for (size_t over : {0, 1}) {
    std::string zeros((512 << 10) + over, '\0'), back;
    EXPECT_EQ(inflate(Coding::kGzip, coded(Coding::kGzip, zeros).view(), &back),
              over ? Inflate::kOverRatio : Inflate::kDone);
  }
}

TEST(Coding, ASourceWithoutRoomIsNotAnError) {
  struct : base::SlabSource {
    base::Slab* take(size_t) override { return nullptr; }
    bool hopeless(size_t) const override { return forever; }
    bool forever = false;
  } empty;
  Bytes all = coded(Coding::kGzip, "abc"), out;
  EXPECT_EQ(inflate_whole(Coding::kGzip, all.span(), {}, empty, &out), Inflate::kNoRoom);
  empty.forever = true;
  EXPECT_EQ(inflate_whole(Coding::kGzip, all.span(), {}, empty, &out), Inflate::kNoMemory);
}

TEST(Coding, NegotiationFollowsQualities) {
  EXPECT_EQ(choose_coding(""), Coding::kIdentity);
  EXPECT_EQ(choose_coding("gzip"), Coding::kGzip);
  EXPECT_EQ(choose_coding("deflate, gzip"), Coding::kGzip);
  EXPECT_EQ(choose_coding("deflate"), Coding::kDeflate);
  EXPECT_EQ(choose_coding("gzip;q=0.5, deflate;q=0.8"), Coding::kDeflate);
  EXPECT_EQ(choose_coding("gzip;q=0"), Coding::kIdentity);
  EXPECT_EQ(choose_coding("*"), Coding::kGzip);
  EXPECT_EQ(choose_coding("*;q=0.1, gzip;q=0"), Coding::kDeflate);
  EXPECT_EQ(choose_coding("br, zstd"), Coding::kIdentity);
  EXPECT_EQ(choose_coding("identity, gzip;q=0.5"), Coding::kIdentity);
  EXPECT_EQ(choose_coding("GZIP ; Q=1.0"), Coding::kGzip);
  EXPECT_EQ(choose_coding("identity,deflate,gzip"), Coding::kGzip);
}

TEST(Coding, AQualityIsInThousandths) {
  auto better = [](const std::string& gzip, const std::string& deflate) {
    return choose_coding("gzip;q=" + gzip + ", deflate;q=" + deflate) == Coding::kGzip;
  };
  EXPECT_TRUE(better("0.5", "0.5"));
  EXPECT_FALSE(better("0.5", "0.501"));
  EXPECT_FALSE(better("0.49", "0.5"));
  EXPECT_TRUE(better("0.001", "0.0009")) << "three places count";
  EXPECT_TRUE(better("1", "1.9")) << "1 is the most";
  EXPECT_FALSE(better("0.9", "1"));
  EXPECT_TRUE(better("0.1", "x"));
  EXPECT_TRUE(better("0.1", ""));
  EXPECT_TRUE(better("0.1", "2")) << "malformed";
  EXPECT_EQ(choose_coding("gzip;x=1"), Coding::kIdentity);
  EXPECT_EQ(choose_coding("gzip;q"), Coding::kIdentity);
  EXPECT_EQ(choose_coding("identity;q=0.5, gzip;q=0.5"), Coding::kGzip);
  EXPECT_EQ(choose_coding("identity;q=0.6, gzip;q=0.5"), Coding::kIdentity);
  EXPECT_EQ(choose_coding("x-gzip"), Coding::kGzip);
  EXPECT_EQ(choose_coding("gzip;q=0, *"), Coding::kDeflate);
  EXPECT_EQ(choose_coding("deflate;q=0, *"), Coding::kGzip);
}

TEST(Coding, NamesAreKnownInAnyCase) {
  EXPECT_EQ(coding_of("GZip"), Coding::kGzip);
  EXPECT_EQ(coding_of("x-gzip"), Coding::kGzip);
  EXPECT_EQ(coding_of(""), Coding::kIdentity);
  EXPECT_EQ(coding_of("br"), std::nullopt);
  EXPECT_EQ(coding_of("gzip, gzip"), std::nullopt);
  EXPECT_EQ(name(*coding_of("deflate")), "deflate");
}

TEST(Coding, AWholeMessageIsInflatedASliceAtATime) {
  std::string text = noise(3 << 20);
  WholeInflater inflater(Coding::kGzip, coded(Coding::kGzip, text), {});
  Bytes out;
  int steps = 1;
  while (inflater.step(base::heap(), &out) == Inflate::kMore) ASSERT_LT(++steps, 200);
  EXPECT_GE(size_t(steps), text.size() / kInflateSlice);
  EXPECT_EQ(out.view(), text);
}

TEST(Coding, InputThatMakesNothingIsCutIntoSlicesToo) {
  std::string empties, member(coded(Coding::kGzip, "").view());
  while (empties.size() < (2 << 20)) empties += member;
  WholeInflater inflater(Coding::kGzip, Bytes::copy_of(empties), {});
  Bytes out;
  int steps = 1;
  Inflate did;
  while ((did = inflater.step(base::heap(), &out)) == Inflate::kMore) ASSERT_LT(++steps, 100);
  EXPECT_EQ(did, Inflate::kDone);
  EXPECT_GE(size_t(steps), empties.size() * kInflatedPerCoded / kInflateSlice);
}

TEST(Coding, TheInflaterOfAMessageIsCharged) {
  support::CountedSlabs slabs(1 << 20);
  Bytes out;
  std::string text(2 << 20, 'a');
  {
    WholeInflater inflater(Coding::kGzip, coded(Coding::kGzip, text), {.ratio = 10'000});
    EXPECT_EQ(inflater.step(slabs, &out), Inflate::kMore);
    EXPECT_EQ(slabs.memory.held(base::MemoryKind::kInput), kInflaterBytes);
    slabs.empty = true;
    while (inflater.step(slabs, &out) == Inflate::kMore) {
    }
    EXPECT_EQ(slabs.memory.held(base::MemoryKind::kInput), 0u) << "one that waits for a slab holds nothing";
  }
  support::CountedSlabs none(kInflaterBytes - 1);
  WholeInflater inflater(Coding::kGzip, coded(Coding::kGzip, text), {});
  EXPECT_EQ(inflater.step(none, &out), Inflate::kNoMemory);
}

// Coded bytes may be hardly more than bytes that come out may be: else a body that comes to nothing could
// go on for ever.
TEST(Coding, CodedInputHasALimitToo) {
  constexpr uint64_t kLimit = 1 << 20, kMost = kLimit + kLimit / 64 + (64 << 10);
  std::string member(coded(Coding::kGzip, "").view()), empties;
  while (empties.size() + member.size() <= kMost) empties += member;
  Bytes out;
  EXPECT_EQ(inflate_whole(Coding::kGzip, Bytes::copy_of(empties).span(), {kLimit, 100}, base::heap(), &out),
            Inflate::kDone);
  empties += member;
  EXPECT_EQ(inflate_whole(Coding::kGzip, Bytes::copy_of(empties).span(), {kLimit, 100}, base::heap(), &out),
            Inflate::kTooBig);
  std::string text = noise(kLimit);
  EXPECT_EQ(inflate_whole(Coding::kGzip, coded(Coding::kGzip, text).span(), {kLimit, 100}, base::heap(), &out),
            Inflate::kDone);
}

TEST(Coding, TheMemoryOfAnInflaterGoesWithIt) {
  std::string back;
  const Bytes text = coded(Coding::kGzip, "x");
  inflate(Coding::kGzip, text.view(), &back);  // what is kept for the next ones is there
  const size_t before = support::heap_in_use();
  for (int i = 0; i < 200; ++i) inflate(Coding::kGzip, text.view(), &back);
  EXPECT_LT(support::heap_in_use(), before + 200 * 1000) << "each has a window of 32 KiB";
}

}  // namespace
}  // namespace weir::wire
