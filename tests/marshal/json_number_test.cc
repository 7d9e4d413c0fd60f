// Numbers of JSON: every way of reading them gives the same value, correctly rounded.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <type_traits>

#include "marshal/json_cursor.h"
#include "marshal/number_run.h"
#include "support/guarded_text.h"

namespace weir::marshal {
namespace {

template <class T>
std::optional<T> number(std::string_view text) {
  JsonCursor c(text);
  JsonNumber n;
  T out;
  if (!c.number(n) || !c.finish() || !n.to(out)) return std::nullopt;
  return out;
}

TEST(JsonNumber, IsRoundedCorrectlyToBothFloats) {
  EXPECT_EQ(number<double>("0.1"), 0.1);
  EXPECT_EQ(number<double>("123456789012345678901234567890"), 123456789012345678901234567890.0);
  EXPECT_EQ(number<double>("0.000000000000000000000000000000123"), 1.23e-31);
  EXPECT_EQ(number<double>("9007199254740993"), 9007199254740992.0);
  EXPECT_EQ(number<double>("1e400"), std::nullopt);
  EXPECT_EQ(number<double>("1e-400"), 0.0);
  EXPECT_EQ(number<double>("1e-999999999999"), 0.0);
  EXPECT_EQ(number<double>("1e999999999999"), std::nullopt);
  EXPECT_EQ(number<float>("3.4028236e38"), std::nullopt);
  EXPECT_EQ(number<float>("3.4028235e38"), 3.4028235e38f);
  EXPECT_EQ(number<float>("1e-45"), 1e-45f);
  EXPECT_TRUE(std::signbit(*number<float>("-0")));
  // Just above the middle of 1 and the next float: rounding through double would fall down to 1.
  EXPECT_EQ(number<float>("1.00000005960464477540"), std::nextafter(1.0f, 2.0f));
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    char text[64];
    auto bits = uint32_t(random());
    auto f = std::bit_cast<float>(bits);
    if (!std::isfinite(f)) continue;
    std::snprintf(text, sizeof text, "%.*g", int(6 + random() % 14), double(f));
    EXPECT_EQ(number<float>(text), std::strtof(text, nullptr)) << text;
    EXPECT_EQ(number<double>(text), std::strtod(text, nullptr)) << text;
  }
}

// The value that the short way reads from `text` in the middle of an array, if it takes it.
template <class T>
std::optional<T> plain(const std::string& text) {
  std::string document = text + ", 0.123456789012345]";
  JsonCursor c(document);
  T out;
  if (!c.plain(out)) {
    EXPECT_EQ(c.at(), 0u) << text;
    return std::nullopt;
  }
  EXPECT_EQ(c.at(), text.size()) << text;
  return out;
}

TEST(JsonNumber, IsTheSameTheShortWay) {
  for (const char* text : {"0", "-0", "7", "0.5", "-0.0625", "1234567.12345678", "0.00000001", "10", "100.0", "9999999",
                           "0.59", "-9.99"}) {
    ASSERT_TRUE(plain<double>(text)) << text;
    EXPECT_EQ(std::bit_cast<uint64_t>(*plain<double>(text)), std::bit_cast<uint64_t>(*number<double>(text))) << text;
  }
  for (const char* text : {"", "-", ".5", "1.", "01", "-01.5", "00", "1e5", "1.5E3", "0.123456789", "12345678", "x",
                           "--1", "+1", "\"1\"", "1.e5"})
    EXPECT_EQ(plain<double>(text), std::nullopt) << text;
  // Right at the middle of two floats.
  EXPECT_EQ(plain<float>("16777.21700000"), number<float>("16777.21700000"));
  EXPECT_EQ(plain<float>("8388608.5"), std::nullopt);
  std::mt19937_64 random(2);
  for (int i = 0; i < 50000; ++i) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", int(random() % 9),
                  (double(random()) - 9e18) / double(1ull << (40 + random() % 24)));
    EXPECT_EQ(plain<double>(text).value_or(std::strtod(text, nullptr)), std::strtod(text, nullptr)) << text;
    EXPECT_EQ(plain<float>(text).value_or(std::strtof(text, nullptr)), std::strtof(text, nullptr)) << text;
  }
}

TEST(JsonNumber, IsWholeOrNotAnInteger) {
  EXPECT_EQ(number<int64_t>("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(number<int64_t>("9223372036854775808"), std::nullopt);
  EXPECT_EQ(number<int64_t>("-9223372036854775809"), std::nullopt);
  EXPECT_EQ(number<uint64_t>("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(number<uint64_t>("18446744073709551616"), std::nullopt);
  EXPECT_EQ(number<uint64_t>("-1"), std::nullopt);
  EXPECT_EQ(number<uint64_t>("-0"), 0u);
  EXPECT_EQ(number<int64_t>("2.0"), 2);
  EXPECT_EQ(number<int64_t>("2e3"), 2000);
  EXPECT_EQ(number<int64_t>("25e-1"), std::nullopt);
  EXPECT_EQ(number<int64_t>("1.5"), std::nullopt);
  EXPECT_EQ(number<int64_t>("0e99"), 0);
  EXPECT_EQ(number<int64_t>("1e99"), std::nullopt);
}

TEST(JsonNumber, EndsWhereItsTextEndsThoughDigitsStandBehind) {
  const std::string_view digits = "0.1234567812345678";
  for (size_t cut = 3; cut <= digits.size(); ++cut) {
    auto value = number<double>(digits.substr(0, cut));
    EXPECT_EQ(value, std::strtod(std::string(digits.substr(0, cut)).c_str(), nullptr)) << cut;
  }
}

TEST(JsonNumber, ARunStopsAtWhatItWasAskedForAndAtTheEnd) {
  const std::string_view all = "1.5, 2.25,-3, 0.00000001,1234567.5,7,8, 99.5";
  const std::vector<double> values{1.5, 2.25, -3, 0.00000001, 1234567.5, 7, 8, 99.5};
  const std::vector<size_t> ends{3, 9, 12, 24, 34, 36, 38, 44};
  for (size_t most = 0; most <= values.size(); ++most) {
    double to[9] = {-1, -1, -1, -1, -1, -1, -1, -1, -1};
    size_t used = 99;
    const support::GuardedText text(all);
    EXPECT_EQ(read_numbers(text.view(), to, most, &used), most);
    EXPECT_EQ(used, most == 0 ? 0 : ends[most - 1]);
    for (size_t i = 0; i < 9; ++i) EXPECT_EQ(to[i], i < most ? values[i] : -1) << most;
  }
  for (size_t cut = 0; cut <= all.size(); ++cut) {  // each one's own text, whatever stood behind it in the last one
    double to[9];
    size_t used = 99;
    const support::GuardedText text(all.substr(0, cut));
    const size_t n = read_numbers(text.view(), to, 9, &used);
    ASSERT_LE(used, cut);
    EXPECT_EQ(n == 0, used == 0);
    for (size_t i = 0; i + 1 < n; ++i) EXPECT_EQ(to[i], values[i]) << cut;
    if (n > 0) {
      const std::string last(text.view().substr(0, used));
      EXPECT_EQ(to[n - 1], std::strtod(last.substr(last.find_last_of(", ") + 1).c_str(), nullptr)) << cut;
    }
  }
  float one = 0;
  size_t used = 99;
  EXPECT_EQ(read_numbers("x", &one, 1, &used), 0u);
  EXPECT_EQ(used, 0u);
  EXPECT_EQ(read_numbers("2:34567, 1.5, 1.5, 1.5, 1.5", &one, 1, &used), 1u);
  EXPECT_EQ(one, 2) << "a colon is no digit";
  EXPECT_EQ(used, 1u);
  EXPECT_EQ(read_numbers("2.:34567, 1.5, 1.5, 1.5, 1.5", &one, 1, &used), 0u);
}

// The first number of a run, if that is all of `text`. What may not follow a number is seen by whoever reads on.
template <class T>
std::optional<T> first_of_run(const std::string& text, const std::string& behind) {
  T out;
  size_t used = 0;
  if (read_numbers(text + behind, &out, 1, &used) == 0) return std::nullopt;
  using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
  EXPECT_TRUE(number<Wide>(text.substr(0, used))) << text;
  if (used != text.size()) return std::nullopt;
  return out;
}

template <class T>
void expect_as_number(const std::string& text, const std::string& behind) {
  const auto run = first_of_run<T>(text, behind), whole = number<T>(text);
  if (run) {
    ASSERT_TRUE(whole) << text;
    EXPECT_EQ(*run, *whole) << text;
    if constexpr (std::is_floating_point_v<T>) {
      EXPECT_EQ(std::signbit(*run), std::signbit(*whole)) << text;
    }
  }
}

TEST(JsonNumber, OfAFewCharactersIsTheSameInARun) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200000; ++i) {
    std::string text;
    for (size_t n = random() % 9; n > 0; --n) text += "0123456789012345678901234567890123456789.-eE+ "[random() % 46];
    for (std::string_view behind : {"", "]", ",1.5, 2.5, 3.5, 4.5, 5.5]"}) {
      const std::string alone = text.substr(0, text.find(' '));
      expect_as_number<float>(alone, std::string(behind));
      expect_as_number<double>(alone, std::string(behind));
    }
  }
  for (const char* text : {"0", "-0", "7", "0.5", "-0.0625", "12.25", "1234567", "-9.99", "123456.7", "0.000001"})
    for (const char* behind : {",1.5, 2.5, 3.5, 4.5, 5.5]", "]"}) {
      ASSERT_TRUE(first_of_run<float>(text, behind)) << text;
      EXPECT_EQ(std::bit_cast<uint32_t>(*first_of_run<float>(text, behind)),
                std::bit_cast<uint32_t>(std::strtof(text, nullptr)));
      ASSERT_TRUE(first_of_run<double>(text, behind)) << text;
      EXPECT_EQ(std::bit_cast<uint64_t>(*first_of_run<double>(text, behind)),
                std::bit_cast<uint64_t>(std::strtod(text, nullptr)));
    }
}

TEST(JsonNumber, OfOneDecimalIsTheSameInARun) {
  const std::string behind = " 2.5, 3.5, 4.5, 5.5, 6.5, 7.5]";
  for (int n = 0; n < 2000; ++n)
    for (const char* sign : {"", "-"}) {
      const std::string text = sign + std::to_string(n / 10) + "." + std::to_string(n % 10);
      float to[2] = {};
      size_t used = 0;
      ASSERT_EQ(read_numbers(text + "," + behind, to, 2, &used), 2u) << text;
      EXPECT_EQ(std::bit_cast<uint32_t>(to[0]), std::bit_cast<uint32_t>(std::strtof(text.c_str(), nullptr))) << text;
      EXPECT_EQ(to[1], 2.5f);
      EXPECT_EQ(used, text.size() + 5);
    }
  float to = 0;
  size_t used = 99;
  for (const char* text : {"00.5,", "05.5,", "/.5,", ":.5,", "+.5,", ".5,", "1./,", "1.:,", "1.,", "1..,"})
    EXPECT_EQ(read_numbers(text + behind, &to, 1, &used), 0u) << text;
}

TEST(JsonNumber, ThatIsWholeIsTheSameInARun) {
  const std::string behind = ", 2]";
  for (const char* text : {"0", "-0", "7", "-7", "2147483647", "-2147483648", "999999999999999999"})
    EXPECT_EQ(first_of_run<int64_t>(text, behind), number<int64_t>(text)) << text;
  EXPECT_EQ(first_of_run<int32_t>("2147483647", behind), INT32_MAX);
  EXPECT_EQ(first_of_run<int32_t>("-2147483648", behind), INT32_MIN);
  for (const char* text : {"2147483648", "-2147483649", "9223372036854775807", "1.0", "1e3", "01", "-", "", "x"})
    EXPECT_EQ(first_of_run<int32_t>(text, behind), std::nullopt) << text;
  std::mt19937_64 random(4);
  for (int i = 0; i < 50000; ++i) {
    const std::string text = std::to_string(int64_t(random()) >> (random() % 64));
    expect_as_number<int64_t>(text, behind);
  }
}

TEST(JsonNumber, IsRoundedCorrectlyAtTheEdgesOfEveryWay) {
  for (const char* text :
       {"1e22", "1e23", "1e-22", "1e-23", "9007199254740993e1", "9007199254740993e-1", "9007199254740992e22",
        "18014398509481983e5", "1234567890123456789e27", "1234567890123456789e28", "1234567890123456789e-27",
        "1234567890123456789e-28", "0e25", "-1e-400", "12345678901234567890123e-300", "4.9e-324", "2.4e-324"}) {
    EXPECT_EQ(number<double>(text), std::strtod(text, nullptr)) << text;
    const float single = std::strtof(text, nullptr);
    EXPECT_EQ(number<float>(text), std::isfinite(single) ? std::optional(single) : std::nullopt) << text;
  }
  EXPECT_TRUE(std::signbit(*number<double>("-1e-400")));
  EXPECT_EQ(number<float>("9999999999999999999e27"), std::nullopt);
  EXPECT_EQ(number<float>("3.4028236000000001e38"), std::nullopt);
  EXPECT_EQ(number<double>("1" + std::string(400, '0')), std::nullopt);
  EXPECT_EQ(number<float>("1" + std::string(50, '0')), std::nullopt);
  EXPECT_EQ(number<double>("0." + std::string(400, '0') + "1234567890123456789012"), 0.0);
  EXPECT_EQ(number<double>("1e4294967297"), std::nullopt) << "an exponent that wraps to 1";
  EXPECT_EQ(number<double>("7e-4294967297"), 0.0);
  std::mt19937_64 random(3);
  for (int i = 0; i < 200'000; ++i) {
    char text[64];
    std::snprintf(text, sizeof text, "%llue%d", static_cast<unsigned long long>(random() >> (random() % 14)),
                  int(random() % 62) - 31);
    ASSERT_EQ(number<double>(text), std::strtod(text, nullptr)) << text;
    ASSERT_EQ(number<float>(text).value_or(INFINITY), std::strtof(text, nullptr)) << text;
  }
}

TEST(JsonNumber, HasItsFirstNineteenDigitsAndThePlaceOfTheLast) {
  auto read = [](std::string_view text) {
    JsonCursor c(text);
    JsonNumber n;
    EXPECT_TRUE(c.number(n) && c.finish()) << text;
    EXPECT_EQ(n.text, text);
    return std::tuple(n.digits, n.exponent, n.truncated, n.integral);
  };
  const uint64_t nineteen = 1234567890123456789;
  EXPECT_EQ(read("1234567890123456789"), std::tuple(nineteen, 0, false, true));
  EXPECT_EQ(read("12345678901234567890"), std::tuple(nineteen, 1, true, true));
  EXPECT_EQ(read("123456789012345678912"), std::tuple(nineteen, 2, true, true));
  EXPECT_EQ(read("1.2345678901234567891234"), std::tuple(nineteen, -18, true, false));
  EXPECT_EQ(read("0.00000000000000000001234567890123456789"), std::tuple(nineteen, -38, false, false));
  EXPECT_EQ(read("-1234567890123456789e3"), std::tuple(nineteen, 3, false, false));
  EXPECT_EQ(read("0.12e-999999999999"), std::tuple(uint64_t(12), -2'000'000'000, false, false));
  EXPECT_EQ(read("1e2147483647"), std::tuple(uint64_t(1), 2'147'483'647, false, false));
  EXPECT_EQ(read("1e2147483648"), std::tuple(uint64_t(1), 2'000'000'000, false, false));
}

TEST(JsonNumber, IsWholeWhateverItsPointSays) {
  EXPECT_EQ(number<int64_t>("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(number<int64_t>("7000e-3"), 7);
  EXPECT_EQ(number<int64_t>("-120.00"), -120);
  EXPECT_EQ(number<int64_t>("12345678901234567890"), std::nullopt);
  EXPECT_EQ(number<int64_t>("-12345678901234567890"), std::nullopt);
  EXPECT_EQ(number<uint64_t>("12345678901234567890"), 12345678901234567890u);
  EXPECT_EQ(number<uint64_t>("1e19"), 10'000'000'000'000'000'000u);
  EXPECT_EQ(number<uint64_t>("2e19"), std::nullopt);
  EXPECT_EQ(number<uint64_t>("1e4294967296"), std::nullopt);
}

}  // namespace
}  // namespace weir::marshal
