// Runs of numbers (number_run.h) for any processor: the ways for those that people write most, one for each kind, from
// the shortest on.
#include "marshal/number_run.h"

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "marshal/avx2.h"
#include "marshal/json_digits.h"
#include "marshal/number_run_steps.h"

namespace weir::marshal {
namespace {

template <class T>
constexpr std::array<T, 6> kShortPowers{1e0, 1e1, 1e2, 1e3, 1e4, 1e5};  // all that seven characters have room for

// A number as people write most, as read_plain() reads it: of up to seven characters that a non-digit follows (12.5,
// -0.125, 3). Eight characters are looked at together; those behind the point are moved to where it was, and all digits
// are summed at once. Six digits and such a power of ten are exact in a float, too, so one division rounds correctly.
// Null where it is anything else. Nine bytes can be read.
template <class T>
inline const char* read_short(const char* p, T& out) {
  constexpr uint64_t kPoint = '.' ^ '0', kExponent = ('e' ^ '0') | 0x20;
  const bool negative = *p == '-';
  p += negative;
  uint64_t bytes;
  std::memcpy(&bytes, p, 8);
  bytes ^= 0x3030303030303030;
  const uint64_t other = ((bytes + 0x7676767676767676) | bytes) & 0x8080808080808080;
  auto end = unsigned(std::countr_zero(other)) & ~7U;  // in bits, as the next two
  if (end - 8 > 48 || ((bytes & 0xff) == 0 && end > 8)) return nullptr;
  unsigned places = 0;
  if ((bytes >> end & 0xff) == kPoint) {
    const uint64_t before = (uint64_t(1) << end) - 1;
    const unsigned point = end;
    end = unsigned(std::countr_zero(other & (other - 1))) & ~7U;
    places = end - point - 8;
    if (end > 56 || places == 0) return nullptr;
    const uint64_t last = bytes >> end;
    if (((last & 0xff) | 0x20) == kExponent) return nullptr;
    bytes = (bytes & before) | (bytes >> 8 & ~before);
    p += 1;
    end -= 8;
  } else if (((bytes >> end & 0xff) | 0x20) == kExponent) {
    return nullptr;
  }
  p += end / 8;
  const T value = T(int32_t(sum_of_digits(bytes << (64 - end)))) / kShortPowers<T>[places / 8];
  out = negative ? -value : value;
  return p;
}

// "1.5," or "12.5," at once: one decimal, and what parts it from the next number. Returns the place behind the comma.
// Null where it is anything else. Five bytes can be read.
template <class T>
inline const char* read_tenths(const char* p, T& out) {
  uint32_t tens = 0, bytes;
  while (true) {
    std::memcpy(&bytes, p, 4);
    bytes ^= 0x2c302e30;  // "0.0,"
    if (((bytes & 0xfff0fff0) | ((bytes + 0x00060006) & 0x00f000f0)) == 0) break;
    const uint32_t ten = (bytes & 0xff) - 1;
    if (ten > 8 || tens != 0) return nullptr;
    tens = ten + 1;
    ++p;
  }
  out = T(int32_t(tens * 100 + (bytes & 0xff) * 10 + (bytes >> 16))) / T(10);
  return p + 4;
}

// A whole number without a fraction and an exponent that fits, of up to 18 digits. Null where it is anything else.
template <class T>
const char* read_whole(const char* p, T& out) {
  constexpr ptrdiff_t kMost = 18;
  const bool negative = *p == '-';
  p += negative;
  const char* const first = p;
  int64_t value = 0;
  for (; unsigned(*p - '0') < 10; ++p) {
    if (p - first == kMost) return nullptr;
    value = value * 10 + (*p - '0');
  }
  if (p == first || (*first == '0' && p - first > 1) || *p == '.' || (*p | 0x20) == 'e') return nullptr;
  value = negative ? -value : value;
  out = T(value);
  return int64_t(out) == value && (std::is_signed_v<T> || !negative) ? p : nullptr;
}

// The same for one of up to seven characters, as all of 16 bits are, without a branch for each digit.
template <class T>
inline const char* read_short_whole(const char* p, T& out) {
  const bool negative = std::is_signed_v<T> && *p == '-';
  p += negative;
  uint64_t bytes;
  std::memcpy(&bytes, p, 8);
  bytes ^= 0x3030303030303030;
  const uint64_t other = ((bytes + 0x7676767676767676) | bytes) & 0x8080808080808080;
  const auto end = unsigned(std::countr_zero(other)) & ~7U;  // in bits
  if (end - 8 > 48 || ((bytes & 0xff) == 0 && end > 8)) return nullptr;
  p += end / 8;
  if (*p == '.' || (*p | 0x20) == 'e') return nullptr;
  const auto digits = int32_t(sum_of_digits(bytes << (64 - end)));
  const int32_t value = negative ? -digits : digits;
  out = T(value);
  return int32_t(out) == value ? p : nullptr;
}

template <class T>
inline const char* read_one(const char* p, const char* end, T& out) {
  if constexpr (std::is_floating_point_v<T>) {
    const char* after = read_short(p, out);
    return after ? after : read_plain(p, end, out);
  } else if constexpr (sizeof(T) <= 2) {
    return read_short_whole(p, out);
  } else {
    return read_whole(p, out);
  }
}

static_assert(kRunRoom > kPlainRoom && kRunRoom >= 1 + 18 + 2);

}  // namespace

template <class T>
size_t run_portable(RunPlace& place, const char* end, T* to, size_t most) {
  RunSteps steps(place);
  size_t n = 0;
  while (n < most && steps.has_room(end)) {
    const char* const number_end = read_one(steps.at(), end, to[n]);
    if (!number_end && !steps.pass_space()) break;
    if (!number_end) continue;
    ++n;
    if (!steps.pass(number_end)) break;
  }
  place = steps.place();
  return n;
}

namespace {

// Those of one decimal at the front.
template <class T>
size_t run_of_tenths(RunPlace& place, const char* end, T* to, size_t most) {
  size_t n = 0;
  for (; n < most && end - place.next >= kRunRoom; ++n) {
    const char* const next = read_tenths(place.next, to[n]);
    if (!next) break;
    place.read = next - 1;
    place.next = next + (*next == ' ');
  }
  return n;
}

template <class T>
size_t run_with_room(RunPlace& place, const char* end, T* to, size_t most) {
  size_t n = 0;
  if constexpr (std::is_floating_point_v<T>) n = run_of_tenths(place, end, to, most);
#ifdef __x86_64__
  if constexpr (sizeof(T) >= 4) {
    if (has_avx2()) return n + run_avx2(place, end, to + n, most - n);
  }
#endif
  return n + run_portable(place, end, to + n, most - n);
}

// Close to the end of the text the rest is read from a copy, with room behind it that is no part of a number.
template <class T>
size_t run_of_plain(std::string_view text, T* to, size_t most, size_t* used) {
  RunPlace place{text.data(), text.data()};
  const char* const end = text.data() + text.size();
  size_t n = run_with_room(place, end, to, most);
  *used = size_t(place.read - text.data());
  if (n == most || place.over) return n;
  std::array<char, 2 * kRunRoom> copy{};
  if (place.next != end) std::memcpy(copy.data(), place.next, size_t(end - place.next));
  RunPlace rest{copy.data(), copy.data()};
  const size_t more = run_with_room(rest, copy.data() + copy.size(), to + n, most - n);
  if (more > 0) *used = size_t(place.next - text.data()) + size_t(rest.read - copy.data());
  return n + more;
}

}  // namespace

size_t read_numbers(std::string_view text, float* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}
size_t read_numbers(std::string_view text, double* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}
size_t read_numbers(std::string_view text, int8_t* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}
size_t read_numbers(std::string_view text, int16_t* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}
size_t read_numbers(std::string_view text, int32_t* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}
size_t read_numbers(std::string_view text, int64_t* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}
size_t read_numbers(std::string_view text, uint8_t* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}
size_t read_numbers(std::string_view text, uint16_t* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}
size_t read_numbers(std::string_view text, uint32_t* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}
size_t read_numbers(std::string_view text, uint64_t* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}

template size_t run_portable(RunPlace&, const char*, float*, size_t);
template size_t run_portable(RunPlace&, const char*, double*, size_t);
template size_t run_portable(RunPlace&, const char*, int8_t*, size_t);
template size_t run_portable(RunPlace&, const char*, int16_t*, size_t);
template size_t run_portable(RunPlace&, const char*, int32_t*, size_t);
template size_t run_portable(RunPlace&, const char*, int64_t*, size_t);
template size_t run_portable(RunPlace&, const char*, uint8_t*, size_t);
template size_t run_portable(RunPlace&, const char*, uint16_t*, size_t);
template size_t run_portable(RunPlace&, const char*, uint32_t*, size_t);
template size_t run_portable(RunPlace&, const char*, uint64_t*, size_t);

}  // namespace weir::marshal
