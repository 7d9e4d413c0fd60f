#include "marshal/float_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace weir::marshal {
namespace {

template <class T>
std::string text(T value) {
  char buffer[kFloatText];
  return {buffer, write_text(buffer, value)};
}

// "1234e-7": digits without zeros around them, and the exponent of the last one.
std::string canonical(std::string_view s) {
  std::string digits;
  int exponent = 0;
  size_t e = s.find('e');
  if (e != s.npos) exponent = std::stoi(std::string(s.substr(e + 1)));
  bool after = false;
  for (char c : s.substr(0, e)) {
    if (c == '.') after = true;
    if (c < '0' || c > '9') continue;
    digits += c;
    exponent -= after;
  }
  while (digits.size() > 1 && digits.back() == '0') digits.pop_back(), ++exponent;
  digits.erase(0, digits.find_first_not_of('0'));
  return digits + "e" + std::to_string(exponent);
}

// Empty, or what is wrong.
std::string fault(float value) {
  std::string ours = text(value);
  float back = 0;
  auto [end, error] = std::from_chars(ours.data(), ours.data() + ours.size(), back);
  char theirs[32];
  auto other = std::to_chars(theirs, theirs + 32, value, std::chars_format::scientific);
  std::string expected(theirs, other.ptr);
  if (error != std::errc() || end != ours.data() + ours.size() || back != value) return ours + " is not " + expected;
  if (canonical(ours) != canonical(expected)) return ours + " is longer or farther than " + expected;
  if (ours.find_first_of(".e") == ours.npos) return ours + " looks whole";
  return {};
}

TEST(FloatText, IsTheShortestThatReadsBack) {
  for (uint32_t bits = 1; bits < 0x7f800000; bits += 6007) ASSERT_EQ(fault(std::bit_cast<float>(bits)), "");
}

TEST(FloatText, HoldsAtThePowersOfTwoAndTheirNeighbours) {
  for (uint32_t biased = 0; biased < 255; ++biased)
    for (int near = -3; near <= 3; ++near) {
      uint32_t bits = (biased << 23) + uint32_t(near);
      if (bits == 0 || bits >= 0x7f800000) continue;
      EXPECT_EQ(fault(std::bit_cast<float>(bits)), "") << bits;
    }
}

TEST(FloatText, HoldsForFewDecimalsAndTheirNeighbours) {
  for (int n = 1; n < 1'010'000; n += n < 2000 ? 1 : 11) {
    float value = float(n / 1e4);
    EXPECT_EQ(fault(value), "");
    EXPECT_EQ(fault(std::nextafter(value, 0.0f)), "");
    EXPECT_EQ(fault(std::nextafter(value, 1e9f)), "");
  }
}

TEST(FloatText, HoldsForOneDecimalAndItsNeighbours) {
  for (int n = 1; n < 11'000; ++n) {
    const float value = float(n) / 10;
    EXPECT_EQ(fault(value), "");
    EXPECT_EQ(fault(-value), "");
    EXPECT_EQ(fault(std::nextafter(value, 0.0f)), "");
    EXPECT_EQ(fault(std::nextafter(value, 1e9f)), "");
  }
}

// Numbers in runs, of which each begins with one of no common kind, against each by itself.
void expect_same_in_runs(const std::vector<float>& values) {
  constexpr size_t kRun = 50;
  const float odd = 0.123456789F;
  std::vector<char> buffer((kRun + 1) * (kFloatText + 1));
  for (size_t at = 0; at < values.size(); at += kRun) {
    const size_t n = std::min(kRun, values.size() - at);
    std::vector<float> run{odd};
    run.insert(run.end(), values.begin() + ptrdiff_t(at), values.begin() + ptrdiff_t(at + n));
    std::string expected;
    for (float value : run) expected += text(value) + ";";
    char* end = buffer.data();
    ASSERT_EQ(write_floats(end, reinterpret_cast<const char*>(run.data()), run.size(), ';'), run.size());
    ASSERT_EQ(std::string(buffer.data(), end), expected);
  }
}

TEST(FloatText, IsTheSameInARun) {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 0x7f800000; bits += 20011)
    values.push_back(std::bit_cast<float>(bits | (bits % 3 ? 0 : 0x80000000)));
  expect_same_in_runs(values);
  values.clear();
  for (uint32_t biased = 0; biased < 255; ++biased)
    for (uint32_t near = 0; near < 7; ++near)
      values.push_back(std::bit_cast<float>(std::max<uint32_t>(biased << 23, 3) - 3 + near));
  for (int n = 0; n < 20'000; ++n) values.push_back(float(n / 1e4));
  for (int n = 1; n < 1'000'000'000; n += n / 3 + 1)
    for (float ten : {1e-13F, 1e-9F, 1e-5F, 1e-2F}) values.push_back(float(n) * ten);
  expect_same_in_runs(values);
}

TEST(FloatText, OfARunEndsBeforeWhatIsNotFinite) {
  const std::array<float, 4> values{0.123456789F, 0.2123456789F, INFINITY, 1};
  std::array<char, 4 * (kFloatText + 1)> buffer;
  char* end = buffer.data();
  EXPECT_EQ(write_floats(end, reinterpret_cast<const char*>(values.data()), values.size(), ','), 2u);
  EXPECT_EQ(std::string(buffer.data(), end), "0.12345679,0.21234567,");
}

// The text of std::to_chars, with a point where that would look whole.
std::string by_standard(double value) {
  std::array<char, kFloatText> buffer;
  std::string out(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr);
  return out.find_first_of(".e") == out.npos ? out + ".0" : out;
}

TEST(FloatText, OfADoubleIsWhatTheStandardWrites) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 50'000; ++i) {
    const auto whole = double(int64_t(random()) >> (random() % 64));
    for (double value : {whole / std::pow(10, random() % 24), std::ldexp(whole, -int(random() % 80)),
                         std::nextafter(std::pow(10, int(random() % 20) - 5), double(i % 2) * 1e30)})
      if (std::abs(value) >= 1 << 24 || value != std::trunc(value)) {
        ASSERT_EQ(text(value), by_standard(value));
      }
  }
}

TEST(FloatText, OfWholeNumbersIsWhatTheStandardWrites) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 50'000; ++i) {
    const uint64_t value = random() >> (random() % 64);
    ASSERT_EQ(text(value), std::to_string(value));
    ASSERT_EQ(text(int64_t(value)), std::to_string(int64_t(value)));
    ASSERT_EQ(text(-int64_t(value >> 1)), std::to_string(-int64_t(value >> 1)));
  }
  for (uint64_t ten = 1; ten <= 1'000'000'000'000'000'000; ten *= 10)
    for (uint64_t value : {ten - 1, ten, ten + 1}) EXPECT_EQ(text(value), std::to_string(value));
  EXPECT_EQ(text(UINT64_MAX), std::to_string(UINT64_MAX));
  EXPECT_EQ(text(INT64_MIN), std::to_string(INT64_MIN));
}

TEST(FloatText, HasThePointWhereAPersonWouldPutIt) {
  EXPECT_EQ(text(0.0f), "0.0");
  EXPECT_EQ(text(-0.0f), "-0.0");
  EXPECT_EQ(text(1.0f), "1.0");
  EXPECT_EQ(text(-1.5f), "-1.5");
  EXPECT_EQ(text(0.1f), "0.1");
  EXPECT_EQ(text(0.0625f), "0.0625");
  EXPECT_EQ(text(0.0001f), "0.0001");
  EXPECT_EQ(text(-99.9999f), "-99.9999");
  EXPECT_EQ(text(100.5f), "100.5");
  EXPECT_EQ(text(0.00012f), "0.00012");
  EXPECT_EQ(text(0.000012f), "0.000012");
  EXPECT_EQ(text(0.00001f), "0.00001");
  EXPECT_EQ(text(0.0000012f), "1.2e-06");
  EXPECT_EQ(text(1234567890123456.0), "1234567890123456.0");
  EXPECT_EQ(text(1e15f), "1000000000000000.0");
  EXPECT_EQ(text(1e16f), "1e+16");
  EXPECT_EQ(text(1.5e16), "1.5e+16");
  EXPECT_EQ(text(123456.7f), "123456.7");
  EXPECT_EQ(text(16777216.0f), "16777216.0");
  EXPECT_EQ(text(1e10f), "10000000000.0");
  EXPECT_EQ(text(1e30f), "1e+30");
  EXPECT_EQ(text(3.4028235e38f), "3.4028235e+38");
  EXPECT_EQ(text(1e-45f), "1e-45");
  EXPECT_EQ(text(0.1), "0.1");
  EXPECT_EQ(text(1e300), "1e+300");
  EXPECT_EQ(text(-7.0), "-7.0");
  EXPECT_EQ(text(9007199254740993.0), "9007199254740992.0");
}

}  // namespace
}  // namespace weir::marshal
