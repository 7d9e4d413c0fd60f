#include "schema_strings.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "regex.h"

namespace grammar {
namespace {

struct Format {
  std::string_view name, regex;
};
// Without the year 0, which Python's dates have not.
#define GRAMMAR_YEAR "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
#define GRAMMAR_DATE \
  GRAMMAR_YEAR       \
  "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
#define GRAMMAR_TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define GRAMMAR_LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define GRAMMAR_OCTET "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
// Each is a part of what the format allows, with which validators agree.
constexpr std::array<Format, 11> kFormats{{
    {"date", GRAMMAR_DATE},
    {"time", GRAMMAR_TIME},
    {"date-time", GRAMMAR_DATE "T" GRAMMAR_TIME},
    {"duration", "P([0-9]{1,6}W|[0-9]{1,6}D(T[0-9]{1,6}[HMS])?|[0-9]{1,6}[YM]|T[0-9]{1,6}[HMS])"},
    {"email", "[A-Za-z0-9_+-]{1,40}(\\.[A-Za-z0-9_+-]{1,20}){0,3}@(" GRAMMAR_LABEL "\\.){1,3}[A-Za-z]{2,12}"},
    {"hostname", GRAMMAR_LABEL "(\\." GRAMMAR_LABEL "){0,4}"},
    {"ipv4", "(" GRAMMAR_OCTET "\\.){3}" GRAMMAR_OCTET},
    {"ipv6", "([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}"},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"uri", "https?://" GRAMMAR_LABEL "(\\." GRAMMAR_LABEL "){0,4}(/[A-Za-z0-9._~-]{0,60}){0,8}"},
    {"regex", "[A-Za-z0-9_ ]{0,60}"},
}};

Node in_quotes(Grammar& out, Node inside) { return out.sequence({out.literal("\""), inside, out.literal("\"")}); }

const Format* known_format(const Json& schema) {
  auto named = schema.find("format");
  if (named == schema.end() || !named->is_string()) return nullptr;
  const auto* found = std::find_if(kFormats.begin(), kFormats.end(),
                                   [&](const Format& f) { return f.name == named->get_ref<const std::string&>(); });
  return found == kFormats.end() ? nullptr : found;
}

struct Lengths {
  uint32_t least = 0, most = kUnbounded;
};

Result<Lengths> lengths_of(const Json& schema, std::string_view pointer) {
  auto least = count_of(schema, "minLength", 0, pointer), most = count_of(schema, "maxLength", kUnbounded, pointer);
  if (!least) return least.error();
  if (!most) return most.error();
  return Lengths{*least, *most};
}

// A pattern or a format, with the lengths that are asked for beside it.
Result<Node> with_lengths(Grammar& out, const Regex& regex, Lengths lengths, Unsupported unsupported,
                          std::string_view pointer) {
  if (regex.least >= lengths.least && (lengths.most == kUnbounded || regex.most <= lengths.most))
    return in_quotes(out, regex.node);
  if (regex.least > lengths.most || (regex.most < lengths.least && regex.most < kUnbounded)) return Grammar::kNever;
  if (regex.unit == Grammar::kNever && unsupported == Unsupported::kIgnored) return in_quotes(out, regex.node);
  if (regex.unit == Grammar::kNever)
    return wrong(pointer, "minLength or maxLength beside this pattern or format is not supported");
  const auto least = uint32_t(std::max<uint64_t>(regex.least, lengths.least));
  const auto most = uint32_t(std::min<uint64_t>(std::min<uint64_t>(regex.most, kUnbounded), lengths.most));
  return in_quotes(out, out.repeat(regex.unit, least, most));
}

}  // namespace

#undef GRAMMAR_DATE
#undef GRAMMAR_TIME
#undef GRAMMAR_LABEL
#undef GRAMMAR_OCTET

Node string_character(Grammar& out) {
  const Node plain = out.characters({{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x7e}, {0x80, kLastCharacter}});
  const Node hex = out.characters({{'0', '9'}, {'a', 'f'}, {'A', 'F'}});
  // \ud800 to \udfff are no characters on their own.
  const Node first =
      out.choice({out.sequence({out.characters({{'0', '9'}, {'a', 'c'}, {'A', 'C'}, {'e', 'f'}, {'E', 'F'}}), hex}),
                  out.sequence({out.characters({{'d', 'd'}, {'D', 'D'}}), out.characters({{'0', '7'}})})});
  const Node escape = out.choice(
      {out.characters(
           {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}}),
       out.sequence({out.literal("u"), first, hex, hex})});
  return out.choice({plain, out.sequence({out.literal("\\"), escape})});
}

Result<uint32_t> count_of(const Json& schema, const char* keyword, uint32_t fallback, std::string_view pointer) {
  auto at = schema.find(keyword);
  if (at == schema.end()) return fallback;
  const double value = at->is_number() ? at->get<double>() : -1;
  if (!(value >= 0) || value != std::floor(value))
    return wrong(below(pointer, keyword), "expected a whole number from 0");
  return uint32_t(std::min(value, double(1'000'000'000)));
}

bool has_known_format(const Json& schema) { return known_format(schema) != nullptr; }

Result<bool> has_length(const Json& schema, const Json& value, std::string_view pointer) {
  auto lengths = lengths_of(schema, pointer);
  if (!lengths) return lengths.error();
  if (!value.is_string()) return true;
  const std::string& text = value.get_ref<const std::string&>();
  const auto characters = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
  return uint64_t(characters) >= lengths->least && uint64_t(characters) <= lengths->most;
}

// Generators of schemas write the pattern of a format beside it: the pattern says more than the format does, but one
// with look-around is left to the format.
Result<Node> string_node(Grammar& out, const Json& schema, Node any, Unsupported unsupported,
                         std::string_view pointer) {
  auto asked = lengths_of(schema, pointer);
  if (!asked) return asked.error();
  const Lengths lengths = *asked;
  auto pattern = schema.find("pattern");
  const Format* format = known_format(schema);
  if (pattern != schema.end()) {
    if (!pattern->is_string()) return wrong(below(pointer, "pattern"), "expected a string");
    auto regex = read_regex_into(out, pattern->get_ref<const std::string&>(), Match::kSearch, Quoting::kJson);
    if (regex) return with_lengths(out, *regex, lengths, unsupported, below(pointer, "pattern"));
    if (!format && unsupported == Unsupported::kRefused) return wrong(below(pointer, "pattern"), regex.error().message);
  }
  if (format) {
    auto regex = read_regex_into(out, format->regex, Match::kWhole, Quoting::kJson);
    if (!regex) return regex.error();
    return with_lengths(out, *regex, lengths, unsupported, below(pointer, "format"));
  }
  if (lengths.least == 0 && lengths.most == kUnbounded) return any;
  return in_quotes(out, out.repeat(string_character(out), lengths.least, lengths.most));
}

}  // namespace grammar
