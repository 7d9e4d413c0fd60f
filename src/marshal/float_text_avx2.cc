// Runs of floats as text (float_text.h) with AVX2, for those from 1e-5 to 2^23: without a branch that depends on how
// many digits there are, nor on where the point stands.
//
// A float is c · 2^q. With as many decimal places that its last bit is from 1 to 10 units of the last place, c ·
// 5^places is exact in 64 bits, and so is the interval of what reads back as this float. A multiple of ten in it is
// shorter than all others, and there is one at most; else it is the whole number next to the float (R. Giulietti,
// Schubfach).
#ifdef __x86_64__

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "marshal/avx2.h"
#include "marshal/float_text.h"

namespace weir::marshal {
namespace {

constexpr uint32_t kFirst = 0x3727c5ac, kEnd = 0x4b000000;  // 1e-5 and 2^23, as bits
constexpr uint32_t kFirstExponent = kFirst >> 23, kExponents = (kEnd >> 23) - kFirstExponent;

struct Scale {
  uint64_t power;     // 5^places
  uint32_t fraction;  // bits of 4 · c · power that are below one
  uint32_t places;
};

// By exponent; powers of two, to which the next float below is nearer, are behind all others.
constexpr auto kScales = [] {
  std::array<Scale, size_t(2 * kExponents)> table{};
  for (uint32_t i = 0; i < 2 * kExponents; ++i) {
    const uint32_t q = 150 - kFirstExponent - i % kExponents;  // negated
    const uint64_t above = i < kExponents ? 4 : 3;             // quarters of the last bit
    uint32_t places = 0;
    for (uint64_t ten = 1; ten * above < uint64_t(4) << q; ten *= 10) ++places;
    uint64_t power = 1;
    for (uint32_t n = 0; n < places; ++n) power *= 5;
    table[i] = {power, q - places + 2, places};
  }
  return table;
}();

constexpr size_t kMostPlaces = 13;

// How 16 digits become text with a point before the last `places`: those before it move up by one, and the first, which
// is zero, makes room. With as many bytes behind, so that the text can be had from any place on.
struct Layout {
  std::array<uint8_t, 32> from, letters;
};
constexpr auto kLayouts = [] {
  std::array<Layout, kMostPlaces + 1> table{};
  for (size_t places = 1; places <= kMostPlaces; ++places) {
    const size_t point = 15 - places;
    for (size_t i = 0; i < 32; ++i) {
      table[places].from[i] = uint8_t(i < point ? i + 1 : i == point || i >= 16 ? 0x80 : i);
      table[places].letters[i] = i == point ? '.' : '0';
    }
  }
  return table;
}();

// For 16-bit numbers of four digits, times four: 8389 / 2^25, 5243 / 2^21, 13108 / 2^19 and 32768 / 2^17, in two steps.
constexpr int64_t kOverTens = 8389 | int64_t(5243) << 16 | int64_t(13108) << 32 | int64_t(uint64_t(32768) << 48);
constexpr int64_t kShifts = 1 << 7 | int64_t(1) << 27 | int64_t(1) << 45 | int64_t(uint64_t(1) << 63);

// 1 for zero, without a comparison (avx2.h).
WEIR_AVX2_INLINE uint32_t is_zero(uint32_t of_31_bits) { return (of_31_bits - 1) >> 31; }

// The shortest decimal that reads back as the float, nearest to it among those, in units of the last place.
WEIR_AVX2_INLINE uint32_t shortest(uint32_t mantissa, uint32_t is_power, const Scale& scale) {
  const uint32_t c = mantissa | 0x800000, odd = c & 1;
  const uint64_t value = uint64_t(4 * c) * scale.power;
  const uint64_t low = value - (scale.power << 1 >> is_power) + odd, high = value + 2 * scale.power - odd;
  const auto whole = uint32_t(value >> scale.fraction);
  const uint32_t ten = whole / 10 * 10;
  const uint64_t down = uint64_t(whole) << scale.fraction, ten_down = uint64_t(ten) << scale.fraction;
  const uint64_t ten_up = ten_down + (uint64_t(10) << scale.fraction);
  const uint64_t half = uint64_t(1) << scale.fraction >> 1, rest = value - down + (whole & 1);
  const auto up = uint32_t(((half - rest) | (down - low)) >> 63);
  const auto no_up = uint32_t((high - ten_up) >> 63), no_down = uint32_t((ten_down - low) >> 63);
  const uint32_t nearest = whole + up, shorter = ten + 10 * (1 - no_up);
  return nearest ^ ((nearest ^ shorter) & ((no_up & no_down) - 1));
}

// The nine digits of a number below 2 · 10^8, each a byte, as the last ones of 16.
WEIR_AVX2_INLINE __m128i digits_of(uint32_t value) {
  const uint32_t ninth = (99'999'999 - value) >> 31;
  const uint32_t eight = value - 100'000'000 * ninth, high = eight / 10000, low = eight - 10000 * high;
  const __m128i both = _mm_cvtsi32_si128(int(high * 4 | low << 18));
  const __m128i fours = _mm_shuffle_epi8(both, _mm_set_epi32(0x03020302, 0x03020302, 0x01000100, 0x01000100));
  // Over 1000, 100, 10 and 1: products of 16 bits, of which the upper half is kept, and the same again to shift them.
  const __m128i scaled = _mm_mulhi_epu16(fours, _mm_set1_epi64x(kOverTens));
  const __m128i quotients = _mm_mulhi_epu16(scaled, _mm_set1_epi64x(kShifts));
  const __m128i tens = _mm_slli_epi64(_mm_mullo_epi16(quotients, _mm_set1_epi16(10)), 16);
  const __m128i first = _mm_insert_epi16(_mm_setzero_si128(), int(ninth), 7);
  return _mm_packus_epi16(first, _mm_sub_epi16(quotients, tens));
}

WEIR_AVX2_INLINE char* write_one(char* to, uint32_t bits) {
  *to = '-';
  to += bits >> 31;
  const uint32_t mantissa = bits & 0x7fffff, is_power = is_zero(mantissa);
  const Scale& scale = kScales[(bits >> 23 & 0xff) - kFirstExponent + kExponents * is_power];
  const __m128i digits = digits_of(shortest(mantissa, is_power, scale));
  const __m128i zeros = _mm_cmpeq_epi8(digits, _mm_setzero_si128());
  const auto others = ~uint32_t(_mm_movemask_epi8(zeros)) & 0xffff;
  const uint32_t point = 16 - scale.places;
  const uint32_t from = std::min(uint32_t(std::countr_zero(others)), point - 1) - 1;
  const uint32_t end = std::max(32 - uint32_t(std::countl_zero(others)), point + 1);
  const Layout& layout = kLayouts[scale.places];
  const auto* const order = reinterpret_cast<const __m128i*>(&layout.from[from]);
  const auto* const letters = reinterpret_cast<const __m128i*>(&layout.letters[from]);
  const __m128i text = _mm_or_si128(_mm_shuffle_epi8(digits, _mm_loadu_si128(order)), _mm_loadu_si128(letters));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), text);
  return to + (end - from);
}

WEIR_AVX2 size_t run(char*& to, const char* data, size_t n, char behind) {
  char* p = to;
  size_t i = 0;
  for (; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, data + i * sizeof bits, sizeof bits);
    if ((bits & 0x7fffffff) - kFirst >= kEnd - kFirst) break;
    p = write_one(p, bits);
    *p++ = behind;
  }
  to = p;
  return i;
}

}  // namespace

size_t write_floats_avx2(char*& to, const char* data, size_t n, char behind) { return run(to, data, n, behind); }

}  // namespace weir::marshal

#endif
