#include "schema_numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

namespace grammar {
namespace {

constexpr uint32_t kMostFraction = 15;  // digits behind the point

Node digit(Grammar& out, char first, char last) { return out.characters({{uint32_t(first), uint32_t(last)}}); }
Node digits(Grammar& out, size_t count) { return out.repeat(digit(out, '0', '9'), uint32_t(count), uint32_t(count)); }

// Numbers of as many digits as both have, from `least` to `most`.
Node same_length(Grammar& out, std::string_view least, std::string_view most) {
  if (least.empty()) return Grammar::kEmpty;
  const auto rest = least.size() - 1;
  if (least[0] == most[0])
    return out.sequence({digit(out, least[0], least[0]), same_length(out, least.substr(1), most.substr(1))});
  std::vector<Node> all;
  char first = least[0], last = most[0];
  if (least.substr(1).find_first_not_of('0') != std::string_view::npos) {
    all.push_back(out.sequence({digit(out, first, first), same_length(out, least.substr(1), std::string(rest, '9'))}));
    ++first;
  }
  if (most.substr(1).find_first_not_of('9') != std::string_view::npos) {
    all.push_back(out.sequence({digit(out, last, last), same_length(out, std::string(rest, '0'), most.substr(1))}));
    --last;
  }
  if (first <= last) all.push_back(out.sequence({digit(out, first, last), digits(out, rest)}));
  return out.choice(std::move(all));
}

Node naturals(Grammar& out, int64_t least, int64_t most) {
  std::vector<Node> all;
  for (int64_t from = least; from <= most;) {
    const std::string text = std::to_string(from), nines(text.size(), '9');
    const int64_t to = std::min<int64_t>(most, std::stoll(nines));
    all.push_back(same_length(out, text, std::to_string(to)));
    from = to + 1;
  }
  return out.choice(std::move(all));
}

struct Interval {
  double least = -INFINITY, most = INFINITY;
  bool least_open = false, most_open = false;
  bool open() const { return std::isinf(least) && std::isinf(most); }
};

Result<Interval> interval_of(const Json& schema, std::string_view pointer) {
  Interval out;
  for (const char* key : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}) {
    auto at = schema.find(key);
    if (at == schema.end()) continue;
    const bool open = key[0] == 'e', low = std::string_view(key).ends_with("inimum");
    if (at->is_boolean()) {  // of draft 4: the other keyword is open
      if (at->get<bool>()) (low ? out.least_open : out.most_open) = true;
      continue;
    }
    if (!at->is_number()) return wrong(below(pointer, key), "expected a number");
    const double value = at->get<double>();
    if (low && value >= out.least) out.least_open = (open || (value == out.least && out.least_open)), out.least = value;
    if (!low && value <= out.most) out.most_open = (open || (value == out.most && out.most_open)), out.most = value;
  }
  for (const char* key : {"exclusiveMinimum", "exclusiveMaximum"})
    if (auto at = schema.find(key); at != schema.end() && at->is_boolean() && at->get<bool>())
      (key[9] == 'M' && key[10] == 'i' ? out.least_open : out.most_open) = true;
  return out;
}

// The whole numbers inside.
std::pair<int64_t, int64_t> wholes(const Interval& in) {
  constexpr double kMost = double(kMostInteger);
  double least = std::ceil(std::max(in.least, -kMost)), most = std::floor(std::min(in.most, kMost));
  if (in.least_open && least == in.least) least += 1;
  if (in.most_open && most == in.most) most -= 1;
  return {int64_t(std::clamp(least, -kMost, kMost + 1)), int64_t(std::clamp(most, -kMost - 1, kMost))};
}

// The digits behind a point with which an interval begins or ends; no trailing zeros.
struct Edge {
  std::string_view digits;
  bool open = false;
  char first() const { return digits.empty() ? '0' : digits[0]; }
  Edge rest() const { return {digits.empty() ? digits : digits.substr(1), open}; }
};
// Nothing: any digits will do.
using MaybeEdge = std::optional<Edge>;

// At least `needed` digits, at most `room`, from `least` to `most`, which is not below it. Where they end is as if
// zeros followed.
Node fraction_digits(Grammar& out, MaybeEdge least, MaybeEdge most, uint32_t needed, uint32_t room) {
  if (least && least->digits.empty() && !least->open) least.reset();
  if (!least && !most) return out.repeat(digit(out, '0', '9'), needed, room);
  std::vector<Node> all;
  if (needed == 0 && !least && (!most->digits.empty() || !most->open)) all.push_back(Grammar::kEmpty);
  if (room == 0) return out.choice(std::move(all));
  const char low = least ? least->first() : '0', high = most ? most->first() : '9';
  const char from = least ? char(low + 1) : low, to = most ? char(high - 1) : high;
  auto one = [&](char first, char last, MaybeEdge l, MaybeEdge m) {
    all.push_back(out.sequence({digit(out, first, last), fraction_digits(out, l, m, 0, room - 1)}));
  };
  if (from <= to) one(from, to, {}, {});
  if (least && most && low == high) {
    one(low, low, least->rest(), most->rest());
  } else {
    if (least) one(low, low, least->rest(), {});
    if (most) one(high, high, {}, most->rest());
  }
  return out.choice(std::move(all));
}

// The end of a number behind its whole part: a point and digits, or nothing.
Node fraction(Grammar& out, const MaybeEdge& least, const MaybeEdge& most) {
  const Node none = fraction_digits(out, least, most, 0, 0);
  return out.choice({none, out.sequence({out.literal("."), fraction_digits(out, least, most, 1, kMostFraction)})});
}

// A bound's distance from zero, in the digits that numbers are written with.
struct Decimal {
  int64_t whole = 0;
  std::string digits;  // behind the point, without trailing zeros
  bool open = false;
  Edge edge() const { return {digits, open}; }
};

enum class Rounding : uint8_t { kUp, kDown };

// A bound with more digits than numbers are written with is rounded into the interval, and is then part of it.
Decimal decimal(double value, bool open, Rounding rounding) {
  constexpr double kMost = double(kMostInteger);
  if (value >= kMost + 1) return {kMostInteger + 1, "", false};
  char text[400];  // the smallest double has 324 digits behind the point that are zeros
  const char* end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed).ptr;
  const std::string_view all(text, size_t(end - text));
  const size_t point = std::min(all.find('.'), all.size());
  Decimal out{std::stoll(std::string(all.substr(0, point))), std::string(all.substr(std::min(point + 1, all.size()))),
              open};
  if (out.digits.size() > kMostFraction) {
    out.digits.resize(kMostFraction), out.open = false;
    size_t at = rounding == Rounding::kUp ? out.digits.size() : 0;
    while (at > 0 && out.digits[at - 1] == '9') out.digits[--at] = '0';
    if (at > 0)
      ++out.digits[at - 1];
    else if (rounding == Rounding::kUp)
      ++out.whole;
  }
  out.digits.resize(out.digits.find_last_not_of('0') + 1);
  return out;
}

// Numbers from `least` to `most`, which are not negative.
Node decimals(Grammar& out, const Decimal& least, const Decimal& most) {
  if (least.whole > most.whole || least.whole > kMostInteger) return Grammar::kNever;
  auto from = [&](int64_t whole, const MaybeEdge& l, const MaybeEdge& m) {
    return out.sequence({out.literal(std::to_string(whole)), fraction(out, l, m)});
  };
  if (least.whole == most.whole) {
    const bool none = least.digits > most.digits || (least.digits == most.digits && (least.open || most.open));
    return none ? Grammar::kNever : from(least.whole, least.edge(), most.edge());
  }
  std::vector<Node> all{from(least.whole, least.edge(), {})};
  if (most.whole - least.whole > 1)
    all.push_back(out.sequence({naturals(out, least.whole + 1, most.whole - 1), fraction(out, {}, {})}));
  if (most.whole <= kMostInteger) all.push_back(from(most.whole, {}, most.edge()));
  return out.choice(std::move(all));
}

Node decimals(Grammar& out, const Interval& in) {
  auto between = [&](double least, bool least_open, double most, bool most_open) {
    return decimals(out, decimal(least, least_open, Rounding::kUp), decimal(most, most_open, Rounding::kDown));
  };
  std::vector<Node> all;
  if (in.most >= 0)
    all.push_back(between(std::max(in.least, 0.0), in.least_open && in.least >= 0, in.most, in.most_open));
  if (in.least < 0)
    all.push_back(out.sequence(
        {out.literal("-"), between(std::max(-in.most, 0.0), in.most >= 0 || in.most_open, -in.least, in.least_open)}));
  return out.choice(std::move(all));
}

}  // namespace

Node integers(Grammar& out, int64_t least, int64_t most) {
  std::vector<Node> all;
  if (least < 0 && least <= most)
    all.push_back(out.sequence({out.literal("-"), naturals(out, most < 0 ? -most : 1, -least)}));
  if (most >= 0) all.push_back(naturals(out, std::max<int64_t>(least, 0), most));
  return out.choice(std::move(all));
}

Node any_integer(Grammar& out) {
  const Node tens = out.sequence({digit(out, '1', '9'), out.repeat(digit(out, '0', '9'), 0, 14)});
  return out.choice({out.literal("0"), out.sequence({out.optional(out.literal("-")), tens})});
}

Node any_number(Grammar& out) {
  const Node sign = out.optional(out.choice({out.literal("+"), out.literal("-")}));
  const Node fraction = out.sequence({out.literal("."), out.repeat(digit(out, '0', '9'), 1, 15)});
  const Node exponent =
      out.sequence({out.choice({out.literal("e"), out.literal("E")}), sign, out.repeat(digit(out, '0', '9'), 1, 2)});
  const Node whole =
      out.choice({out.literal("0"), out.sequence({digit(out, '1', '9'), out.repeat(digit(out, '0', '9'), 0, 14)})});
  return out.sequence({out.optional(out.literal("-")), whole, out.optional(fraction), out.optional(exponent)});
}

Result<Node> number_node(Grammar& out, const Json& schema, NumberKind kind, Unsupported unsupported,
                         std::string_view pointer) {
  if (auto at = schema.find("multipleOf"); at != schema.end()) {
    const double step = at->is_number() ? at->get<double>() : 0;
    if (step != 1.0 && unsupported == Unsupported::kRefused)
      return wrong(below(pointer, "multipleOf"), "multipleOf is not supported");
    if (step > 0 && step == std::floor(step)) kind = NumberKind::kInteger;
  }
  auto interval = interval_of(schema, pointer);
  if (!interval) return interval.error();
  if (interval->open()) return kind == NumberKind::kInteger ? any_integer(out) : any_number(out);
  if (kind == NumberKind::kNumber) return decimals(out, *interval);
  const auto [least, most] = wholes(*interval);
  return integers(out, least, most);
}

Result<bool> is_between(const Json& schema, const Json& value, std::string_view pointer) {
  auto interval = interval_of(schema, pointer);
  if (!interval) return interval.error();
  if (!value.is_number()) return true;
  const double number = value.get<double>();
  return (interval->least_open ? number > interval->least : number >= interval->least) &&
         (interval->most_open ? number < interval->most : number <= interval->most);
}

}  // namespace grammar
