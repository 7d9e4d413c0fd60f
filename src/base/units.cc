#include "base/units.h"

#include <array>
#include <charconv>
#include <cmath>

namespace weir::base {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};
constexpr std::array<Unit, 6> kTimes{{{"h", 3'600'000'000'000},
                                      {"m", 60'000'000'000},
                                      {"s", 1'000'000'000},
                                      {"ms", 1'000'000},
                                      {"us", 1'000},
                                      {"ns", 1}}};
constexpr std::array<Unit, 9> kSizes{{{"TiB", 1ull << 40},
                                      {"GiB", 1ull << 30},
                                      {"MiB", 1ull << 20},
                                      {"KiB", 1ull << 10},
                                      {"TB", 1'000'000'000'000},
                                      {"GB", 1'000'000'000},
                                      {"MB", 1'000'000},
                                      {"KB", 1'000},
                                      {"B", 1}}};

// number * factor of the unit that follows it; nothing if it is not that. A number without a unit takes `bare`, where 0
// means that only "0" may go without.
template <size_t N>
bool measure(std::string_view text, const std::array<Unit, N>& units, uint64_t bare, uint64_t& out) {
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || std::signbit(number)) return false;
  std::string_view unit = text.substr(size_t(end - text.data()));
  uint64_t factor = bare;
  if (unit.empty() && bare == 0 && number != 0) return false;
  if (!unit.empty()) {
    factor = 0;
    for (const auto& u : units)
      if (u.name == unit) factor = u.factor;
    if (factor == 0) return false;
  }
  double value = number * double(factor);
  if (!(value < 9.2e18)) return false;
  out = uint64_t(std::llround(value));
  return true;
}

template <size_t N>
std::string show(uint64_t value, const std::array<Unit, N>& units) {
  for (const auto& u : units)
    if (value >= u.factor && value % u.factor == 0) return std::to_string(value / u.factor) + std::string(u.name);
  return std::to_string(value);
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  uint64_t ns = 0;
  if (!measure(text, kTimes, 0, ns))
    return invalid("expected a duration like 2ms, 1.5s or 5m, got '" + std::string(text) + "'");
  return Duration(int64_t(ns));
}

Result<uint64_t> parse_size(std::string_view text) {
  uint64_t bytes = 0;
  if (!measure(text, kSizes, 1, bytes))
    return invalid("expected a size like 64MiB, 16KiB or 4096, got '" + std::string(text) + "'");
  return bytes;
}

Result<uint64_t> parse_count(std::string_view text, uint64_t max) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return invalid("expected a whole number, got '" + std::string(text) + "'");
  if (value > max) return invalid("expected at most " + std::to_string(max) + ", got " + std::string(text));
  return value;
}

Result<bool> parse_switch(std::string_view text) {
  for (std::string_view yes : {"true", "on", "yes", "1"})
    if (text == yes) return true;
  for (std::string_view no : {"false", "off", "no", "0"})
    if (text == no) return false;
  return invalid("expected true or false, got '" + std::string(text) + "'");
}

std::string show_duration(Duration duration) {
  if (duration.count() <= 0) return "0";
  return show(uint64_t(duration.count()), kTimes);
}

std::string show_size(uint64_t bytes) {
  for (const auto& u : kSizes)
    if (u.name.find('i') != std::string_view::npos && bytes >= u.factor && bytes % u.factor == 0)
      return std::to_string(bytes / u.factor) + std::string(u.name);
  return std::to_string(bytes);
}

}  // namespace weir::base
