// Runs of numbers (number_run.h) with AVX2: a number is looked at as a whole, in a window of 16 bytes or in one of 32.
// No branch depends on how long it is, nor on where its point stands: among numbers as they come, branches that the
// processor cannot foresee are what takes the time.
#ifdef __x86_64__

#include <immintrin.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "marshal/avx2.h"
#include "marshal/json_digits.h"
#include "marshal/number_run_steps.h"

namespace weir::marshal {
namespace {

// Moves the first `size` bytes, but for the one at `point`, to the end of 16 bytes, with zeros before: [size][point].
constexpr auto kGather = [] {
  std::array<std::array<std::array<uint8_t, 16>, 17>, 17> table{};
  for (size_t size = 0; size <= 16; ++size)
    for (size_t point = 0; point <= 16; ++point) {
      auto& row = table[size][point];
      row.fill(0x80);
      size_t to = 16;
      for (size_t from = size; from-- > 0;)
        if (from != point) row[--to] = uint8_t(from);
    }
  return table;
}();

// By how many bytes the point and what follows it take: 0 for a whole number.
constexpr auto kDivisors = [] {
  std::array<double, 24> table{1};
  for (size_t i = 0; i < kPowers.size(); ++i) table[i + 1] = kPowers[i];
  return table;
}();

// 16 bytes of text.
struct Window {
  __m128i digits;   // their values; zero for all else
  uint32_t others;  // bits of what is no digit, and those above
  uint32_t points;
};

WEIR_AVX2_INLINE Window window_at(const char* p) {
  const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i values = _mm_xor_si128(text, _mm_set1_epi8('0'));
  const __m128i is_digit = _mm_cmpeq_epi8(_mm_min_epu8(values, _mm_set1_epi8(9)), values);
  const __m128i is_point = _mm_cmpeq_epi8(text, _mm_set1_epi8('.'));
  return {_mm_and_si128(values, is_digit), ~uint32_t(_mm_movemask_epi8(is_digit)),
          uint32_t(_mm_movemask_epi8(is_point))};
}

// The number that the digits of the first `size` bytes are, without the byte at `point`.
WEIR_AVX2_INLINE uint64_t sum_of_window(__m128i digits, size_t size, size_t point) {
  const auto* const row = reinterpret_cast<const __m128i*>(kGather[size][point].data());
  const __m128i gathered = _mm_shuffle_epi8(digits, _mm_loadu_si128(row));
  const __m128i pairs = _mm_maddubs_epi16(gathered, _mm_set1_epi16(0x010a));
  const __m128i fours = _mm_madd_epi16(pairs, _mm_set1_epi32(0x00010064));
  const __m128i eights = _mm_madd_epi16(_mm_packus_epi32(fours, fours), _mm_set1_epi32(0x00012710));
  const auto both = uint64_t(_mm_cvtsi128_si64(eights));
  return (both & 0xffffffff) * 100'000'000 + (both >> 32);
}

// The bytes of a number before its point, and all of them, each with its sign.
struct Extent {
  size_t whole, size;
};

// `others`: without the sign.
WEIR_AVX2_INLINE Extent extent(uint64_t others, uint64_t points) {
  const uint64_t ends = others ^ (others & (0 - others) & points);
  return {size_t(_tzcnt_u64(others)), size_t(_tzcnt_u64(ends))};
}

// Whether such bytes are a number of JSON without an exponent.
WEIR_AVX2_INLINE bool is_plain(const char* p, uint32_t negative, Extent e) {
  const size_t before = e.whole - negative;  // digits
  if (before != 1 && (before == 0 || p[negative] == '0')) return false;
  return e.size - e.whole != 1 && (p[e.size] == ',' || (p[e.size] | 0x20) != 'e');
}

template <class T>
WEIR_AVX2_INLINE T with_sign(T value, uint32_t negative) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  return std::bit_cast<T>(std::bit_cast<Bits>(value) | Bits(negative) << (8 * sizeof(T) - 1));
}

// The digits over the divisor, rounded correctly, where a double keeps all of both.
template <class T>
WEIR_AVX2_INLINE bool divide_few(uint64_t digits, size_t fraction, uint32_t negative, T& out) {
  return round_again(with_sign(double(int64_t(digits)) / kDivisors[fraction], negative), out);
}

// The same for up to 63 bits. Both operations in double are off by half of a last bit each at most, which matters to a
// float only close to the middle of two.
WEIR_AVX2_INLINE bool divide_many(uint64_t digits, size_t fraction, float& out) {
  const double value = double(int64_t(digits)) / kDivisors[fraction];
  out = float(value);
  return (std::bit_cast<uint64_t>(value) & 0x1fffffff) - 0x0ffffffc > 8;
}
// To a double, what the 64 bits of a long double are off by matters as rarely. Where it has fewer, text decides.
WEIR_AVX2_INLINE bool divide_many(uint64_t digits, size_t fraction, double& out) {
  const auto value = static_cast<long double>(int64_t(digits)) / static_cast<long double>(kDivisors[fraction]);
  uint64_t bits;
  std::memcpy(&bits, &value, 8);
  out = double(value);
  return (bits & 0x7ff) != 0x400;
}

// For digits of up to 63 bits.
template <class T>
WEIR_AVX2_INLINE bool fits(uint64_t digits, uint32_t negative, T& out) {
  const auto value = int64_t((digits ^ (0 - uint64_t(negative))) + negative);
  out = T(value);
  return int64_t(out) == value && (std::is_signed_v<T> || !negative);
}

// A number of 16 to 31 bytes, of which the first 16 have been looked at. The last 16 are taken by themselves.
template <class T>
WEIR_AVX2_INLINE const char* read_long(const char* p, uint32_t negative, const Window& low, T& out) {
  const Window high = window_at(p + 16);
  const uint64_t others = ((low.others ^ negative) & 0xffff) | uint64_t(high.others) << 16;
  const Extent e = extent(others, low.points | uint64_t(high.points) << 16);
  const size_t fraction = e.size - e.whole;
  if (e.size >= 32 || fraction >= kDivisors.size() || !is_plain(p, negative, e)) return nullptr;
  const size_t head = e.size - 16;
  const size_t point = e.whole - head < 16 ? e.whole - head : 16;
  const uint64_t first = sum_of_window(low.digits, head, e.whole < 16 ? e.whole : 16);
  const uint64_t last = sum_of_window(window_at(p + head).digits, 16, point);
  if (first > 921) return nullptr;  // 63 bits
  const uint64_t digits = first * (point < 16 ? 1'000'000'000'000'000 : 10'000'000'000'000'000) + last;
  if constexpr (std::is_integral_v<T>) {
    if (fraction != 0 || !fits(digits, negative, out)) return nullptr;
  } else {
    if (!divide_many(digits, fraction, out)) return nullptr;
    out = with_sign(out, negative);
  }
  return p + e.size;
}

// 1 for a minus; not by a comparison (avx2.h).
WEIR_AVX2_INLINE uint32_t is_minus(char c) { return ((uint32_t(uint8_t(c)) ^ uint32_t('-')) - 1) >> 31; }

// A number without an exponent. Null where it is anything else, or cannot be told so. kRunRoom bytes can be read.
template <class T>
WEIR_AVX2_INLINE const char* read_number(const char* p, T& out) {
  const uint32_t negative = is_minus(*p);
  const Window window = window_at(p);
  const Extent e = extent(window.others ^ negative, window.points);
  if (e.size >= 16) return read_long(p, negative, window, out);
  if (!is_plain(p, negative, e)) return nullptr;
  const uint64_t digits = sum_of_window(window.digits, e.size, e.whole);
  if constexpr (std::is_integral_v<T>) {
    if (e.size != e.whole || !fits(digits, negative, out)) return nullptr;
  } else {
    if (!divide_few(digits, e.size - e.whole, negative, out)) return nullptr;
  }
  return p + e.size;
}

// A number with an exponent of up to two digits, of up to 15 digits, where a double keeps both exactly. Null where it
// is anything else. kRunRoom bytes can be read.
template <class T>
[[gnu::noinline]] const char* read_scientific(const char* p, T& out) {
  constexpr int kMostDigits = 15;
  const bool negative = *p == '-';
  p += negative;
  if (*p == '0' && unsigned(p[1] - '0') < 10) return nullptr;
  uint64_t digits = 0;
  int before = 0, places = 0;
  for (; unsigned(*p - '0') < 10 && before < kMostDigits; ++p, ++before) digits = digits * 10 + uint64_t(*p - '0');
  if (before == 0) return nullptr;
  if (*p == '.') {
    for (++p; unsigned(*p - '0') < 10 && before + places < kMostDigits; ++p, ++places)
      digits = digits * 10 + uint64_t(*p - '0');
    if (places == 0) return nullptr;
  }
  if ((*p | 0x20) != 'e') return nullptr;
  const bool divides = *++p == '-';
  if (divides || *p == '+') ++p;
  const unsigned first = unsigned(*p - '0'), second = unsigned(p[1] - '0');
  if (first > 9) return nullptr;
  const int written = second > 9 ? int(first) : int(first * 10 + second);
  p += second > 9 ? 1 : 2;
  const int exponent = (divides ? -written : written) - places;
  if (unsigned(*p - '0') < 10 || exponent < -22 || exponent > 22) return nullptr;
  const auto whole = double(int64_t(digits));
  const double value = exponent < 0 ? whole / kPowers[size_t(-exponent)] : whole * kPowers[size_t(exponent)];
  return round_again(negative ? -value : value, out) ? p : nullptr;
}

template <class T>
WEIR_AVX2 size_t run_of_windows(RunPlace& place, const char* end, T* to, size_t most) {
  RunSteps steps(place);
  size_t n = 0;
  while (n < most && steps.has_room(end)) {
    const char* number_end = read_number(steps.at(), to[n]);
    if constexpr (std::is_floating_point_v<T>) {
      if (!number_end) number_end = read_scientific(steps.at(), to[n]);
    }
    if (!number_end && !steps.pass_space()) break;
    if (!number_end) continue;
    ++n;
    if (!steps.pass(number_end)) break;
  }
  place = steps.place();
  return n;
}

}  // namespace

template <class T>
size_t run_avx2(RunPlace& place, const char* end, T* to, size_t most) {
  return run_of_windows(place, end, to, most);
}
template size_t run_avx2(RunPlace&, const char*, float*, size_t);
template size_t run_avx2(RunPlace&, const char*, double*, size_t);
template size_t run_avx2(RunPlace&, const char*, int32_t*, size_t);
template size_t run_avx2(RunPlace&, const char*, int64_t*, size_t);
template size_t run_avx2(RunPlace&, const char*, uint32_t*, size_t);
template size_t run_avx2(RunPlace&, const char*, uint64_t*, size_t);

}  // namespace weir::marshal

#endif
