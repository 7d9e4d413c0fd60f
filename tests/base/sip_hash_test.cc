#include "base/sip_hash.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "base/encoding.h"
#include "base/fake_env.h"

namespace weir::base {
namespace {

// The key of the paper's test vectors: 00 01 … 0f.
constexpr HashKey kPaper{0x0706050403020100, 0x0f0e0d0c0b0a0908};

std::string hash128_of_count(size_t n) {
  std::vector<std::byte> data(n);
  for (size_t i = 0; i < n; ++i) data[i] = std::byte(i);
  Hash128 hash = hash128(kPaper, data);
  return hex({reinterpret_cast<const char*>(&hash), sizeof hash});
}

TEST(SipHash, TheSumsOf24AreThoseOfOpenssl) {
  EXPECT_EQ(hash128_of_count(0), "a3817f04ba25a8e66df67214c7550293");
  EXPECT_EQ(hash128_of_count(15), "5493e99933b0a8117e08ec0f97cfc3d9");
  EXPECT_EQ(hash128_of_count(16), "6ee2a4ca67b054bbfd3315bf85230577");
}

TEST(SipHash, TheSumsOf13AreThoseOfPythonWithoutASeed) {
  EXPECT_EQ(hash64({}, "a"), 0x407448d2b89b1813u);
  EXPECT_EQ(hash64({}, "abcdefgh"), 0x3f7b849c0b8e35eau);
  EXPECT_EQ(hash64({}, "0123456789abcdefXYZ"), 0x283e7687cd67183bu);
}

TEST(SipHash, TheKeyOfTheProcessIsDrawnOnceAndThoseOfAnEnvEachTime) {
  EXPECT_EQ(&process_key(), &process_key());
  EXPECT_TRUE(process_key().first != 0 || process_key().second != 0);
  FakeEnv env;
  HashKey one = HashKey::drawn(env), two = HashKey::drawn(env);
  EXPECT_NE(one.first, two.first);
}

// Texts of 16 bytes that libstdc++'s std::hash, MurmurHash64A with a seed that everybody knows, maps to one number: its
// steps can be undone, so the second word follows from the first and the number.
class OneBucket {
 public:
  explicit OneBucket(size_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t words[2] = {i, 0};
      uint64_t state = (kStart ^ forward(i)) * kMul;
      words[1] = backward(state ^ 0x1234567890abcdef);
      texts.emplace_back(reinterpret_cast<const char*>(words), sizeof words);
    }
  }
  std::vector<std::string> texts;

 private:
  static constexpr uint64_t kMul = 0xc6a4a7935bd1e995, kStart = 0xc70f6907 ^ (16 * kMul);
  static uint64_t forward(uint64_t word) {
    word *= kMul;
    return (word ^ word >> 47) * kMul;
  }
  static uint64_t backward(uint64_t word) {
    uint64_t inverse = kMul;  // modulo 2^64, by Newton's method
    for (int i = 0; i < 6; ++i) inverse *= 2 - kMul * inverse;
    word *= inverse;
    return (word ^ word >> 47) * inverse;
  }
};

struct CountingEqual {
  using is_transparent = void;
  size_t* count;
  bool operator()(std::string_view a, std::string_view b) const { return ++*count, a == b; }
};

TEST(SipHash, TextsThatCollideUnderTheOldHashTakeOneComparisonEach) {
  OneBucket bucket(100'000);
  std::hash<std::string_view> old;
  ASSERT_EQ(old(bucket.texts[0]), old(bucket.texts[99'999])) << "the attack is one";
  size_t count = 0;
  PeerMap<std::string_view, int, CountingEqual> map(0, KeyedHash({1, 2}), {&count});
  for (const auto& text : bucket.texts) map.emplace(text, 0);
  EXPECT_EQ(map.size(), bucket.texts.size());
  for (const auto& text : bucket.texts) EXPECT_EQ(map.count(text), 1u);
  EXPECT_LT(count, 2 * bucket.texts.size());

  // The same number of comparisons a hundred times fewer of them take without a key.
  size_t before = 0;
  std::unordered_map<std::string_view, int, std::hash<std::string_view>, CountingEqual> open(0, {}, {&before});
  for (size_t i = 0; i < 1000; ++i) open.emplace(bucket.texts[i], 0);
  EXPECT_GT(before, 400'000u);
}

TEST(SipHash, ATableOfIdsIsKeyedToo) {
  KeyedHash one({1, 2}), two({3, 4});
  EXPECT_EQ(one(SessionId{5, 6}), one(SessionId{5, 6}));
  EXPECT_NE(one(SessionId{5, 6}), one(SessionId{6, 5}));
  EXPECT_NE(one(SessionId{5, 6}), two(SessionId{5, 6}));
  EXPECT_NE(one(uint64_t(5)), two(uint64_t(5)));
}

}  // namespace
}  // namespace weir::base
