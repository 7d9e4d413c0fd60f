#include "schema_numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>

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

// ---- Multiples

// A step is `digits` × 10^`exponent`; its digits do not end in 0.
struct Step {
  int64_t digits = 0;
  int exponent = 0;
};
constexpr int64_t kMostStep = 100;  // of its digits: each remainder is a state for every place of the number

// Nothing: it has more digits.
std::optional<Step> step_of(double value) {
  if (!(value > 0) || std::isinf(value)) return std::nullopt;
  char text[64];
  const char* end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
  std::string digits(text, size_t(end - text));
  const size_t e = digits.find('e');
  int exponent = std::stoi(digits.substr(e + 1));
  digits.resize(e);
  if (const size_t point = digits.find('.'); point != digits.npos)
    exponent -= int(digits.size() - point - 1), digits.erase(point, 1);
  if (digits.size() > 3 || std::stoll(digits) > kMostStep || std::abs(exponent) > int(kMostFraction))
    return std::nullopt;
  return Step{std::stoll(digits), exponent};
}

int64_t power_of_ten(size_t exponent) {
  int64_t out = 1;
  while (exponent-- > 0) out *= 10;
  return out;
}

// Whole multiples of it are those of a whole step.
Step whole_step(Step step) {
  while (step.exponent < 0) {
    const int64_t common = std::gcd(step.digits, int64_t(10));
    step.digits /= common, ++step.exponent;
  }
  while (step.digits % 10 == 0) step.digits /= 10, ++step.exponent;
  return step;
}

// Numbers digit by digit, with the remainder so far. They are whole here: in units of the last place that the step has.
class Multiples {
 public:
  Multiples(Grammar& out, Step step)
      : out_(out),
        step_(step.digits),
        places_(size_t(std::max(0, -step.exponent))),
        zeros_(size_t(std::max(0, step.exponent))),
        wholes_(std::min<size_t>(15, 18 - places_)) {}

  Node in(const Interval& in) {
    std::vector<Node> all;
    const int64_t most = power_of_ten(wholes_ + places_) - 1;
    const auto up = [&](double bound, bool open) { return std::min(scaled(bound, open, Rounding::kUp), most + 1); };
    const auto down = [&](double bound, bool open) { return std::min(scaled(bound, open, Rounding::kDown), most); };
    if (in.most >= 0)
      all.push_back(between(up(std::max(in.least, 0.0), in.least_open && in.least >= 0), down(in.most, in.most_open)));
    if (in.least < 0) {
      const int64_t least = up(std::max(-in.most, 0.0), in.most < 0 && in.most_open);
      all.push_back(
          out_.sequence({out_.literal("-"), between(std::max<int64_t>(least, 1), down(-in.least, in.least_open))}));
    }
    return out_.choice(std::move(all));
  }

 private:
  int64_t scaled(double bound, bool open, Rounding rounding) const {
    if (std::isinf(bound)) return std::numeric_limits<int64_t>::max();
    Decimal d = decimal(bound, open, rounding);
    if (d.whole >= power_of_ten(wholes_)) return std::numeric_limits<int64_t>::max();
    const bool more = d.digits.size() > places_;
    d.digits.resize(places_, '0');
    const int64_t value = d.whole * power_of_ten(places_) + (places_ > 0 ? std::stoll(d.digits) : 0);
    if (rounding == Rounding::kUp) return value + (more || d.open ? 1 : 0);
    return value - (!more && d.open ? 1 : 0);
  }

  Node between(int64_t least, int64_t most) {
    std::vector<Node> all;
    for (size_t length = 1; length <= wholes_; ++length) {
      const int64_t first = length == 1 ? 0 : power_of_ten(length - 1 + places_), end = power_of_ten(length + places_);
      if (std::max(least, first) > std::min(most, end - 1)) continue;
      least_ = padded(std::max(least, first), length), most_ = padded(std::min(most, end - 1), length);
      all.push_back(rest(0, 0, true, true));
    }
    return out_.choice(std::move(all));
  }
  std::string padded(int64_t value, size_t length) const {
    const std::string text = std::to_string(value);
    return std::string(length + places_ - text.size(), '0') + text;
  }

  // The texts that may follow the first `at` digits, of which the remainder is known, and whether they are those of the
  // least number or of the most.
  Node rest(size_t at, int64_t remainder, bool low, bool high) {
    const size_t left = least_.size() - at;
    const uint64_t key = left << 32 | uint64_t(remainder);
    const bool free = !low && !high;
    if (auto known = known_.find(key); free && known != known_.end()) return known->second;
    Node node = Grammar::kEmpty;
    if (left > 0 || remainder != 0) node = left == 0 ? Grammar::kNever : digit_and_rest(at, remainder, low, high);
    if (left <= places_ && places_ > 0) {  // behind the point, where zeros at the end are left out
      if (left == places_) node = out_.sequence({out_.literal("."), node});
      if (ends(at, remainder, low)) node = out_.choice({Grammar::kEmpty, node});
    }
    if (free) known_.emplace(key, node);
    return node;
  }
  Node digit_and_rest(size_t at, int64_t remainder, bool low, bool high) {
    std::vector<std::pair<Node, std::vector<CodeRange>>> ways;
    const bool zero = least_.size() - at <= zeros_;
    for (char d = low ? least_[at] : '0'; d <= (high ? most_[at] : '9') && !(zero && d > '0'); ++d) {
      const int64_t next = zero ? remainder : (remainder * 10 + (d - '0')) % step_;
      const Node node = rest(at + 1, next, low && d == least_[at], high && d == most_[at]);
      if (node == Grammar::kNever) continue;
      auto way = std::find_if(ways.begin(), ways.end(), [node](const auto& one) { return one.first == node; });
      if (way == ways.end()) way = ways.insert(way, {node, {}});
      way->second.push_back({uint32_t(d), uint32_t(d)});
    }
    std::vector<Node> all;
    for (auto& [node, digits] : ways) all.push_back(out_.sequence({out_.characters(std::move(digits)), node}));
    return out_.choice(std::move(all));
  }
  // Whether nothing but zeros may follow.
  bool ends(size_t at, int64_t remainder, bool low) const {
    for (size_t i = at; i < least_.size(); ++i) remainder = remainder * 10 % step_;
    return remainder == 0 && (!low || least_.find_first_not_of('0', at) == std::string::npos);
  }

  Grammar& out_;
  const int64_t step_;
  const size_t places_, zeros_;  // behind the point; zeros that every multiple ends in
  const size_t wholes_;          // the most digits before the point
  std::string least_, most_;     // of as many digits
  std::unordered_map<uint64_t, Node> known_;
};

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
  auto interval = interval_of(schema, pointer);
  if (!interval) return interval.error();
  if (auto at = schema.find("multipleOf"); at != schema.end()) {
    const double value = at->is_number() ? at->get<double>() : 0;
    auto step = step_of(value);
    if (!step && unsupported == Unsupported::kRefused)
      return wrong(below(pointer, "multipleOf"), "takes a number > 0 whose digits make at most " +
                                                     std::to_string(kMostStep) + ", such as 0.05 or 2500");
    if (step && kind == NumberKind::kInteger) step = whole_step(*step);
    if (step && (step->digits != 1 || step->exponent != 0)) return Multiples(out, *step).in(*interval);
    if (step || (value > 0 && value == std::floor(value))) kind = NumberKind::kInteger;
  }
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
  if (auto at = schema.find("multipleOf"); at != schema.end() && at->is_number() && at->get<double>() > 0) {
    const double times = number / at->get<double>();
    if (std::abs(times - std::round(times)) > 1e-9 * std::max(1.0, std::abs(times))) return false;
  }
  return (interval->least_open ? number > interval->least : number >= interval->least) &&
         (interval->most_open ? number < interval->most : number <= interval->most);
}

}  // namespace grammar
