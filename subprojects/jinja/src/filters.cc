// Filters on text and single values; those on lists are in list_filters.cc.
#include <unicode/uchar.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "builtins.h"
#include "evaluation.h"
#include "filters.h"
#include "format.h"
#include "utf8.h"
#include "value_json.h"

namespace jinja {

namespace {

Value trim(Evaluation& evaluation, const Value& v, Arguments& a) {
  std::string input = evaluation.text_of(v);
  return evaluation.text(std::string(stripped(evaluation, input, Side::kBoth, a.get(0, "chars"))));
}

template <std::string (*kChange)(std::string_view)>
Value changed(Evaluation& evaluation, const Value& v, Arguments&) {
  return evaluation.text(kChange(evaluation.text_of(v)));
}

// Jinja's own title(): words begin behind blanks, dashes and opening brackets.
std::string title(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find_first_of("- \t\n\r\v\f({[<", at), text.size());
    if (end > at) {
      size_t size = std::min(end - at, slice_text(text.substr(at, end - at), 0, 1).size());
      (out += upper(text.substr(at, size))) += lower(text.substr(at + size, end - at - size));
    }
    if (end < text.size()) out += text[end++];
    at = end;
  }
  return out;
}

Value fallback(Evaluation&, const Value& v, Arguments& a) {
  bool empty_too = a.get(1, "boolean", false).truth();
  if (v.undefined() || (empty_too && !v.truth())) return a.get(0, "default_value", std::string());
  return v;
}

Value text(Evaluation& evaluation, const Value& v, Arguments&) {
  return v.text() ? v : evaluation.text(evaluation.text_of(v));
}

std::optional<double> parsed(std::string_view text) {
  text = trimmed(text);
  double out = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

Value to_integer(Evaluation&, const Value& v, Arguments& a) {
  Value fallback = a.get(0, "default", int64_t(0));
  auto base = a.get(1, "base", int64_t(10)).to_int("the base");
  auto of_real = [&](double d) { return std::isfinite(d) && std::fabs(d) < 9e18 ? Value(int64_t(d)) : fallback; };
  if (v.integer() || v.boolean()) return v.to_int("");
  if (v.real()) return of_real(v.to_real());
  if (!v.text() || base < 2 || base > 36) return fallback;
  std::string_view text = trimmed(v.str());
  int64_t out = 0;
  size_t sign = text.starts_with('+') ? 1 : 0;
  auto [end, error] = std::from_chars(text.data() + sign, text.data() + text.size(), out, int(base));
  if (error == std::errc() && end == text.data() + text.size() && text.size() > sign) return out;
  auto real = parsed(text);
  return real ? of_real(*real) : fallback;
}

Value to_float(Evaluation&, const Value& v, Arguments& a) {
  if (v.number()) return v.to_real();
  auto out = v.text() ? parsed(v.str()) : std::nullopt;
  return out ? Value(*out) : a.get(0, "default", 0.0);
}

Value replace_filter(Evaluation& evaluation, const Value& v, Arguments& a) {
  Value count = a.get(2, "count", None{});
  std::string input = evaluation.text_of(v);
  evaluation.spend_bytes(input.size());
  return Value(replaced(evaluation, input, evaluation.text_of(a.need(0, "old")), evaluation.text_of(a.need(1, "new")),
                        count.none() ? -1 : count.to_int("the count")));
}

Value escape(Evaluation& evaluation, const Value& v, Arguments&) {
  const std::string text = evaluation.text_of(v);
  std::string out;
  for (const char& c : text) switch (c) {
      case '&': evaluation.append(out, "&amp;"); break;
      case '<': evaluation.append(out, "&lt;"); break;
      case '>': evaluation.append(out, "&gt;"); break;
      case '\'': evaluation.append(out, "&#39;"); break;
      case '"': evaluation.append(out, "&#34;"); break;
      default: evaluation.append(out, {&c, 1});
    }
  return Value(std::move(out));
}

Value safe(Evaluation&, const Value& v, Arguments&) { return v; }

// As chat templates have it: json.dumps, not Jinja's own for HTML.
Value tojson(Evaluation& evaluation, const Value& v, Arguments& a) {
  DumpOptions options;
  options.ascii = a.get(0, "ensure_ascii", false).truth();
  // By position the order is that of transformers: ensure_ascii, indent, separators, sort_keys.
  Value indent = a.get(1, "indent", None{}), separators = a.get(2, "separators", None{});
  if (indent.text())
    options.indent_text = indent.str(), options.indent = 0;
  else if (!indent.none())
    options.indent = std::clamp<int64_t>(indent.to_int("the indent"), 0, 64);
  if (!indent.none()) options.item_separator = ",";
  if (separators.list() && separators.items().size() == 2) {
    options.item_separator = evaluation.text_of(separators.items()[0]);
    options.key_separator = evaluation.text_of(separators.items()[1]);
  }
  options.sort = a.get(3, "sort_keys", false).truth();
  evaluation.pay_for(v);
  options.make_room = [&evaluation](std::string& out, size_t more) {
    if (out.size() + more > Evaluation::kMaxBytes) exceed_limit("the template makes too much text");
    evaluation.make_room(out, more);
  };
  std::string out = dump(v, options);
  evaluation.count_bytes(out.size());
  return Value(std::move(out));
}

Value indent(Evaluation& evaluation, const Value& v, Arguments& a) {
  Value width = a.get(0, "width", int64_t(4));
  std::string pad =
      width.text() ? width.str() : std::string(size_t(std::clamp<int64_t>(width.to_int("the width"), 0, 1024)), ' ');
  bool first = a.get(1, "first", false).truth(), blank = a.get(2, "blank", false).truth();
  std::string input = evaluation.text_of(v), out;
  if (first) evaluation.append(out, pad);
  size_t line = 0;
  for (std::string_view rest = input;; ++line) {
    size_t end = std::min(rest.find('\n'), rest.size());
    if (line > 0) {
      evaluation.append(out, "\n");
      if (blank || end > 0) evaluation.append(out, pad);
    }
    evaluation.append(out, rest.substr(0, end));
    if (end == rest.size()) break;
    rest.remove_prefix(end + 1);
  }
  return Value(std::move(out));
}

Value absolute(Evaluation&, const Value& v, Arguments&) {
  if (v.real()) return std::fabs(v.to_real());
  int64_t n = v.to_int("the number");
  if (n == INT64_MIN) fail("the number is too large");
  return n < 0 ? -n : n;
}

Value round(Evaluation&, const Value& v, Arguments& a) {
  int64_t digits = std::clamp<int64_t>(a.get(0, "precision", int64_t(0)).to_int("the precision"), -300, 300);
  std::string method = a.get(1, "method", std::string("common")).to_text();
  double scale = std::pow(10.0, double(digits)), d = v.to_real();
  if (method == "ceil") return std::ceil(d * scale) / scale;
  if (method == "floor") return std::floor(d * scale) / scale;
  if (method != "common") fail("round knows common, ceil and floor");
  return std::nearbyint(d * scale) / scale;
}

Value attribute(Evaluation& evaluation, const Value& v, Arguments& a) {
  return evaluation.attribute(v, a.need(0, "name").to_text());
}

Value center(Evaluation& evaluation, const Value& v, Arguments& a) {
  Value text(evaluation.text_of(v));
  Arguments width{{a.get(0, "width", int64_t(80))}, {}};
  return evaluation.call(find_method(text, "center"), width);
}

// Runs of letters, digits and underscores.
Value word_count(Evaluation& evaluation, const Value& v, Arguments&) {
  std::string text = evaluation.text_of(v);
  evaluation.spend(text.size() / 16);
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    char32_t c = utf8_next(text, at);
    bool part = c == '_' || (U_GET_GC_MASK(UChar32(c)) & (U_GC_L_MASK | U_GC_N_MASK)) != 0;
    words += part && !inside;
    inside = part;
  }
  return words;
}

// urllib.parse.quote(); in a query blanks are written as '+' and slashes are escaped too.
std::string quoted(std::string_view text, bool query) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
                 c == '-' || c == '~' || (c == '/' && !query);
    if (plain)
      out += c;
    else if (c == ' ' && query)
      out += '+';
    else
      ((out += '%') += kHex[byte >> 4]) += kHex[byte & 15];
  }
  return out;
}

Value url_encoded(Evaluation& evaluation, const Value& v, Arguments&) {
  if (v.list()) fail("urlencode takes text or a dict, not a list");
  std::string out;
  if (!v.dict()) return evaluation.text(quoted(evaluation.text_of(v), false));
  evaluation.pay_for(v);
  for (const auto& [key, value] : v.entries()) {
    (out += out.empty() ? "" : "&") += quoted(key, true);
    (out += '=') += quoted(evaluation.text_of(value), true);
    if (out.size() > Evaluation::kMaxBytes) exceed_limit("the template makes too much text");
  }
  return evaluation.text(std::move(out));
}

Value file_size(Evaluation& evaluation, const Value& v, Arguments& a) {
  static constexpr std::string_view kUnits = "kMGTPEZY";
  bool binary = a.get(0, "binary", false).truth();
  double bytes = v.to_real(), base = binary ? 1024 : 1000, unit = base;
  char number[400];  // a double has at most 309 digits
  if (bytes == 1) return evaluation.text("1 Byte");
  if (bytes < base) {
    std::snprintf(number, sizeof number, "%.0f Bytes", std::trunc(bytes) + 0.0);
    return evaluation.text(number);
  }
  size_t at = 0;
  for (unit *= base; at + 1 < kUnits.size() && !(bytes < unit); unit *= base) ++at;
  std::string prefix(1, binary && at == 0 ? 'K' : kUnits[at]);
  std::snprintf(number, sizeof number, "%.1f ", base * bytes / unit);
  return evaluation.text(number + prefix + (binary ? "iB" : "B"));
}

// str % arguments: those by name, or those by place.
Value format_filter(Evaluation& evaluation, const Value& v, Arguments& a) {
  if (!a.named.empty() && !a.values.empty()) fail("the format takes arguments by place or by name");
  Value given = a.named.empty() ? Value::tuple(a.values) : Value::dict(Dict(a.named.begin(), a.named.end()));
  return formatted(evaluation, evaluation.text_of(v), given);
}

constexpr FilterEntry kTextFilters[] = {
    {"format", format_filter},
    {"trim", trim},
    {"upper", changed<upper>},
    {"lower", changed<lower>},
    {"capitalize", changed<capitalized>},
    {"title", changed<title>},
    {"default", fallback},
    {"d", fallback},
    {"string", text},
    {"int", to_integer},
    {"float", to_float},
    {"replace", replace_filter},
    {"escape", escape},
    {"e", escape},
    {"safe", safe},
    {"tojson", tojson},
    {"indent", indent},
    {"abs", absolute},
    {"round", round},
    {"attr", attribute},
    {"forceescape", escape},
    {"center", center},
    {"wordcount", word_count},
    {"urlencode", url_encoded},
    {"filesizeformat", file_size},
};

}  // namespace

FilterFn find_filter(std::string_view name) {
  for (const FilterEntry& entry : kTextFilters)
    if (entry.name == name) return entry.filter;
  return find_list_filter(name);
}

}  // namespace jinja
