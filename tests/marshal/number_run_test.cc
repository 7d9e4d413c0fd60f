// Runs of numbers: each way of reading them gives what a number by itself gives, and takes nothing that is none.
#include "marshal/number_run.h"

#include <gtest/gtest.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>

#include "marshal/avx2.h"
#include "marshal/json_cursor.h"
#include "marshal/number_run_steps.h"

namespace weir::marshal {
namespace {

constexpr std::string_view kBehind = ",1.5, 2,  3.25,4.125,5.0625,6.03125,7.015625,8]";

template <class T>
std::optional<T> by_itself(std::string_view text) {
  JsonCursor c(text);
  JsonNumber n;
  std::conditional_t<std::is_floating_point_v<T>, T, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>> out;
  if (!c.number(n) || !c.finish() || !n.to(out)) return std::nullopt;
  if constexpr (std::is_integral_v<T>) {
    if (!std::in_range<T>(out)) return std::nullopt;
  }
  return T(out);
}

template <class T>
using Way = size_t (*)(RunPlace&, const char*, T*, size_t);

// Whether such a way takes `text` as one number; then it is the same as by itself.
template <class T>
bool takes(Way<T> way, const std::string& text) {
  const std::string all = text + std::string(kBehind);
  RunPlace place{all.data(), all.data()};
  T out{};
  if (way(place, all.data() + all.size(), &out, 1) == 0) return false;
  const std::string taken(all.data(), place.read);
  const auto expected = by_itself<T>(taken);
  EXPECT_TRUE(expected) << text;
  if (expected) {
    EXPECT_EQ(std::memcmp(&*expected, &out, sizeof out), 0) << text;
  }
  return taken == text;
}

template <class T>
bool each_takes(const std::string& text) {
  bool all = takes<T>(run_portable<T>, text);
#ifdef __x86_64__
  if constexpr (sizeof(T) >= 4) {
    if (has_avx2()) all = takes<T>(run_avx2<T>, text) && all;
  }
#endif
  return all;
}

template <class... Ts>
void try_all(const std::string& text) {
  (each_takes<Ts>(text), ...);
}
void try_all(const std::string& text) {
  try_all<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(text);
}

std::string printed(const char* form, int places, double value) {
  std::array<char, 512> text;
  return {text.data(), size_t(std::snprintf(text.data(), text.size(), form, places, value))};
}

TEST(FloatRun, TakesFloatsAsTheyAreWritten) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 8'000; ++i) {
    const auto value = float(std::ldexp(double(int64_t(random())), -63 - int(random() % 8)));
    std::array<char, 32> shortest;
    const std::string text(shortest.data(), std::to_chars(shortest.data(), shortest.data() + 32, value).ptr);
    try_all(text);
    try_all(printed("%.*g", 17, double(value)));
    try_all(printed("%.*f", int(random() % 24), double(value) * double(random() % 100'000)));
  }
}

TEST(FloatRun, TakesExponents) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 20'000; ++i) {
    const auto value = double(int64_t(random())) * std::pow(10, int(random() % 50) - 40);
    try_all(printed("%.*e", int(random() % 17), value));
    try_all(printed("%.*g", int(random() % 10), value));
  }
#ifdef __x86_64__
  if (!has_avx2()) return;
  for (const char* text : {"1e-05", "1.2345678e-08", "-1E+5", "5e22", "0e-22", "-0.0e3"}) {
    EXPECT_TRUE(takes<float>(run_avx2<float>, text)) << text;
    EXPECT_TRUE(takes<double>(run_avx2<double>, text)) << text;
  }
  for (const char* text : {"1e", "1e+", "1.e5", "e5", ".5e3", "01e5", "1e005", "1e23", "1e-23"})
    EXPECT_FALSE(takes<double>(run_avx2<double>, text)) << text;
#endif
}

TEST(FloatRun, RoundsTheMiddleOfTwoAsANumberByItselfIs) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 3'000; ++i) {
    const auto value = float(std::ldexp(double(random() >> 40), int(random() % 40) - 39));
    const double middle = (double(value) + double(std::nextafter(value, 1e30F))) / 2;
    for (int places = 0; places < 28; places += 3) try_all(printed("%.*f", places, middle));
    try_all(printed("%.*f", 30, middle));
  }
}

TEST(FloatRun, TakesDigitsOfEachLengthWithThePointAnywhere) {
  std::mt19937_64 random(3);
  for (size_t size = 1; size < 36; ++size)
    for (int i = 0; i < 300; ++i) {
      std::string text;
      for (size_t n = 0; n < size; ++n) text += char('0' + random() % 10);
      if (i % 3) text.insert(random() % (size + 1), ".");
      if (i % 2) text.insert(0, "-");
      try_all(text);
    }
}

TEST(FloatRun, TakesNothingThatIsNoNumber) {
  std::mt19937_64 random(4);
  constexpr std::string_view kLetters = "00123456789..--eE+:/ ,]\"\n";
  for (int i = 0; i < 40'000; ++i) {
    std::string text;
    for (size_t n = random() % (i % 2 ? 6 : 34); n > 0; --n)
      text += kLetters[random() % (i % 3 ? kLetters.size() : 13)];
    try_all(text);
  }
}

TEST(FloatRun, TakesWholeNumbersThatFit) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 10'000; ++i) {
    try_all(std::to_string(int64_t(random()) >> (random() % 64)));
    try_all(std::to_string(random() >> (random() % 64)));
  }
  EXPECT_TRUE(each_takes<uint8_t>("255"));
  EXPECT_TRUE(each_takes<int8_t>("-128"));
  EXPECT_TRUE(each_takes<uint16_t>("65535"));
  EXPECT_TRUE(each_takes<int16_t>("-32768"));
  EXPECT_TRUE(each_takes<uint32_t>("4294967295"));
  EXPECT_TRUE(each_takes<int32_t>("-2147483648"));
  EXPECT_TRUE(each_takes<int64_t>("-999999999999999999"));
  EXPECT_FALSE(each_takes<uint8_t>("256"));
  EXPECT_FALSE(each_takes<uint8_t>("-1"));
  EXPECT_FALSE(each_takes<int8_t>("128"));
  EXPECT_FALSE(each_takes<uint32_t>("4294967296"));
  EXPECT_FALSE(each_takes<uint64_t>("-1"));
  EXPECT_FALSE(each_takes<int32_t>("1.0"));
}

TEST(FloatRun, GoesOverWhiteSpaceBehindCommas) {
  for (std::string_view between : {",", ", ", ",\n    ", ",\t"}) {
    std::string text;
    for (int i = 0; i < 100; ++i) text += std::to_string(i % 7) + "." + std::to_string(1000 + i) + std::string(between);
    text += "0.5]";
    std::array<float, 101> out;
    size_t used = 0;
    ASSERT_EQ(read_numbers(text, out.data(), out.size(), &used), out.size());
    EXPECT_EQ(used, text.size() - 1);
    for (int i = 0; i < 100; ++i)
      EXPECT_EQ(out[size_t(i)], std::stof(std::to_string(i % 7) + "." + std::to_string(1000 + i)));
  }
}

}  // namespace
}  // namespace weir::marshal
