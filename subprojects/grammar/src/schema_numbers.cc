#include "schema_numbers.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace grammar {
namespace {

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

// Numbers with a fraction: those between whole numbers n and n + 1 where both are inside, away from the bounds.
Node fractions(Grammar& out, int64_t least, int64_t most) {
  const Node fraction = out.sequence({out.literal("."), out.repeat(digit(out, '0', '9'), 1, 15)});
  std::vector<Node> all;
  if (most > std::max<int64_t>(least, 0))
    all.push_back(out.sequence({naturals(out, std::max<int64_t>(least, 0), most - 1), fraction}));
  if (least < std::min<int64_t>(most, 0))
    all.push_back(out.sequence(
        {out.literal("-"), naturals(out, std::max<int64_t>(-std::min<int64_t>(most, 0), 0), -least - 1), fraction}));
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

Result<Node> number_node(Grammar& out, const Json& schema, NumberKind kind, std::string_view pointer) {
  if (auto at = schema.find("multipleOf"); at != schema.end()) {
    if (!(at->is_number() && at->get<double>() == 1.0))
      return wrong(below(pointer, "multipleOf"), "multipleOf is not supported");
    kind = NumberKind::kInteger;
  }
  auto interval = interval_of(schema, pointer);
  if (!interval) return interval.error();
  if (interval->open()) return kind == NumberKind::kInteger ? any_integer(out) : any_number(out);
  const auto [least, most] = wholes(*interval);
  if (kind == NumberKind::kInteger) return integers(out, least, most);
  if (least > most && !(interval->least > interval->most))
    return wrong(pointer, "an interval of numbers without a whole number inside is not supported");
  return out.choice({integers(out, least, most), fractions(out, least, most)});
}

}  // namespace grammar
