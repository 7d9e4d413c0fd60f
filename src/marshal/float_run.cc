// Runs of numbers (float_run.h): the ways for those that people write most, one for each kind, from the shortest on.
#include "marshal/float_run.h"

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "marshal/json_digits.h"

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

// A whole number of up to 18 digits, without a fraction and an exponent, that fits. Null where it is anything else.
template <class T>
const char* read_whole(const char* p, const char* end, T& out) {
  constexpr ptrdiff_t kMost = 18;
  if (end - p < 1 + kMost + 1) return nullptr;
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
  return int64_t(out) == value ? p : nullptr;
}

template <class T>
inline const char* read_one(const char* p, const char* end, T& out) {
  if constexpr (std::is_integral_v<T>) {
    return read_whole(p, end, out);
  } else {
    const char* after = read_short(p, out);
    return after ? after : read_plain(p, end, out);
  }
}

// How far a run has come.
struct RunPlace {
  const char* next;   // where its next number begins
  const char* read;   // behind its last number
  bool over = false;  // there is no next number that it takes
};

constexpr ptrdiff_t kRunRoom = 1 + 18 + 2;  // the longest number of any kind, and what follows it
static_assert(kRunRoom > kPlainRoom);

template <class T>
size_t run_with_room(RunPlace& place, const char* end, T* to, size_t most) {
  const char *p = place.next, *after = place.read;
  size_t n = 0;
  for (; n < most && end - p >= kRunRoom; ++n) {
    if constexpr (std::is_floating_point_v<T>) {
      if (const char* const next = read_tenths(p, to[n])) {
        after = next - 1;
        p = next + (*next == ' ');
        continue;
      }
    }
    const char* const number_end = read_one(p, end, to[n]);
    if (!number_end) {
      place.over = true;
      break;
    }
    after = number_end;
    p = after + 1;
    p += *p == ' ';
    if (*after == ',') continue;
    place.over = true;
    ++n;
    break;
  }
  place.next = p, place.read = after;
  return n;
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

size_t read_run(std::string_view text, float* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}
size_t read_run(std::string_view text, double* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}
size_t read_run(std::string_view text, int32_t* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}
size_t read_run(std::string_view text, int64_t* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}

}  // namespace weir::marshal
