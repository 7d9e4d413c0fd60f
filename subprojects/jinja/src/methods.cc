// Methods of str, dict and list.
#include <unicode/uchar.h>

#include <algorithm>

#include "builtins.h"
#include "evaluation.h"
#include "utf8.h"

namespace jinja {

namespace {

using Method = Value (*)(Evaluation&, const Value& self, Arguments&);

const std::string& text_of(const Value& value, std::string_view what) {
  if (!value.text()) fail(std::string(what) + " is a " + std::string(value.kind()) + ", not a str");
  return value.str();
}

template <Side kSide>
Value strip(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  return evaluation.text(std::string(stripped(evaluation, self.str(), kSide, arguments.get(0, "chars"))));
}

template <std::string (*kChange)(std::string_view)>
Value changed_str(Evaluation& evaluation, const Value& self, Arguments&) {
  return evaluation.text(kChange(self.str()));
}

// str.startswith and endswith take one string or several.
template <bool (*kHas)(std::string_view, std::string_view)>
Value has_affix(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  Value affix = arguments.need(0, "prefix");
  evaluation.pay_for(affix);
  if (!affix.list()) return kHas(self.str(), text_of(affix, "the affix"));
  return std::any_of(affix.items().begin(), affix.items().end(),
                     [&](const Value& one) { return kHas(self.str(), text_of(one, "the affix")); });
}
bool has_prefix(std::string_view text, std::string_view affix) { return text.starts_with(affix); }
bool has_suffix(std::string_view text, std::string_view affix) { return text.ends_with(affix); }

int64_t limit_of(const Arguments& arguments, size_t place, std::string_view name) {
  return arguments.get(place, name, int64_t(-1)).to_int(name);
}

// str.split() without a separator: words between white space.
List words(Evaluation& evaluation, std::string_view text, int64_t most) {
  List out;
  text = trimmed(text, Side::kLeft);
  while (!text.empty()) {
    evaluation.spend(1);
    if (most >= 0 && int64_t(out.size()) == most) {
      out.emplace_back(trimmed(text, Side::kRight));
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      size_t size = utf8_size(text[end]);
      if (trimmed(text.substr(end, size), Side::kLeft).empty()) break;
      end += size;
    }
    out.emplace_back(text.substr(0, end));
    text = trimmed(text.substr(end), Side::kLeft);
  }
  return out;
}

Value split(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  Value separator = arguments.get(0, "sep", None{});
  int64_t most = limit_of(arguments, 1, "maxsplit");
  std::string_view text = self.str();
  evaluation.spend_bytes(text.size());
  if (separator.none()) return Value::list(words(evaluation, text, most));
  std::string_view by = text_of(separator, "the separator");
  if (by.empty()) fail("the separator is empty");
  evaluation.pay_for_search(text.size(), by.size());
  List out;
  for (size_t at; most != 0 && (at = text.find(by)) != text.npos; --most) {
    evaluation.spend(1);
    out.emplace_back(text.substr(0, at));
    text.remove_prefix(at + by.size());
  }
  out.emplace_back(text);
  return Value::list(std::move(out));
}

Value rsplit(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  int64_t most = limit_of(arguments, 1, "maxsplit");
  if (most < 0) return split(evaluation, self, arguments);
  Value separator = arguments.get(0, "sep", None{});
  if (separator.none()) fail("rsplit with maxsplit needs a separator");
  std::string_view by = text_of(separator, "the separator"), text = self.str();
  if (by.empty()) fail("the separator is empty");
  List out;
  evaluation.spend_bytes(text.size());
  evaluation.pay_for_search(text.size(), by.size());
  for (size_t at; most != 0 && (at = text.rfind(by)) != text.npos; --most) {
    evaluation.spend(1);
    out.emplace_back(text.substr(at + by.size()));
    text = text.substr(0, at);
  }
  out.emplace_back(text);
  std::reverse(out.begin(), out.end());
  return Value::list(std::move(out));
}

Value splitlines(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  bool keep = arguments.get(0, "keepends", false).truth();
  std::string_view text = self.str();
  evaluation.spend_bytes(text.size());
  List out;
  while (!text.empty()) {
    evaluation.spend(1);
    size_t end = std::min(text.find_first_of("\n\r\v\f\x1c\x1d\x1e"), text.size());
    size_t next = end == text.size() ? end : end + (text.substr(end).starts_with("\r\n") ? 2 : 1);
    out.emplace_back(text.substr(0, keep ? next : end));
    text.remove_prefix(next);
  }
  return Value::list(std::move(out));
}

Value replace(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  Value from = arguments.need(0, "old"), to = arguments.need(1, "new");
  evaluation.spend_bytes(self.str().size());
  return Value(replaced(evaluation, self.str(), text_of(from, "what is replaced"), text_of(to, "the replacement"),
                        limit_of(arguments, 2, "count")));
}

Value join(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  std::string out;
  bool first = true;
  for (const Value& part : elements(evaluation, arguments.need(0, "iterable"))) {
    if (!std::exchange(first, false)) evaluation.append(out, self.str());
    evaluation.append(out, text_of(part, "what is joined"));
  }
  return Value(std::move(out));
}

template <bool kLast, bool kMust>
Value place_of(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  Value what = arguments.need(0, "sub");
  const std::string& word = text_of(what, "what is looked for");
  evaluation.pay_for_search(self.str().size(), word.size());
  size_t at = kLast ? self.str().rfind(word) : self.str().find(word);
  if (at != std::string::npos) return length(std::string_view(self.str()).substr(0, at));
  if (kMust) fail("the substring is not found");
  return int64_t(-1);
}

Value count_text(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  Value what = arguments.need(0, "sub");
  const std::string& word = text_of(what, "what is counted");
  evaluation.pay_for_search(self.str().size(), word.size());
  if (word.empty()) return length(self.str()) + 1;
  int64_t n = 0;
  for (size_t at = 0; (at = self.str().find(word, at)) != std::string::npos; at += word.size()) ++n;
  return n;
}

template <UBool (*kIs)(UChar32)>
Value all_are(Evaluation&, const Value& self, Arguments&) {
  const std::string& text = self.str();
  for (size_t at = 0; at < text.size();)
    if (!kIs(UChar32(utf8_next(text, at)))) return false;
  return !text.empty();
}

Value is_upper(Evaluation&, const Value& self, Arguments&) {
  return upper(self.str()) == self.str() && lower(self.str()) != self.str();
}
Value is_lower(Evaluation&, const Value& self, Arguments&) {
  return lower(self.str()) == self.str() && upper(self.str()) != self.str();
}

Value remove_prefix(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  Value affix = arguments.need(0, "prefix");
  std::string_view text = self.str();
  if (text.starts_with(text_of(affix, "the prefix"))) text.remove_prefix(affix.str().size());
  return evaluation.text(std::string(text));
}
Value remove_suffix(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  Value affix = arguments.need(0, "suffix");
  std::string_view text = self.str();
  if (text.ends_with(text_of(affix, "the suffix"))) text.remove_suffix(affix.str().size());
  return evaluation.text(std::string(text));
}

// `text` with `left` and `right` times the fill character around it, paid for before it is made.
Value padded(Evaluation& evaluation, std::string_view text, std::string_view fill, uint64_t left, uint64_t right) {
  if (left + right > Evaluation::kMaxBytes) exceed_limit("the template makes too much text");
  evaluation.spend_bytes(text.size() + (left + right) * fill.size());
  std::string out;
  while (left-- > 0) out += fill;
  out += text;
  while (right-- > 0) out += fill;
  return Value(std::move(out));
}

enum class Place : uint8_t { kLeft, kCenter, kRight };
template <Place kPlace>
Value justified(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  int64_t width = arguments.need(0, "width").to_int("the width"), size = length(self.str());
  Value fill = arguments.get(1, "fillchar", Value(std::string(" ")));
  if (length(text_of(fill, "the fill character")) != 1) fail("the fill character is one character");
  int64_t pad = width > size ? width - size : 0;
  int64_t left = kPlace == Place::kLeft ? 0 : kPlace == Place::kRight ? pad : pad / 2 + (pad & width & 1);
  return padded(evaluation, self.str(), fill.str(), uint64_t(left), uint64_t(pad - left));
}

Value zero_filled(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  int64_t width = arguments.need(0, "width").to_int("the width"), size = length(self.str());
  std::string_view text = self.str();
  Value zeros = padded(evaluation, "", "0", width > size ? uint64_t(width - size) : 0, 0);
  bool sign = text.starts_with('-') || text.starts_with('+');
  return evaluation.text(std::string(text.substr(0, sign)) + zeros.str() + std::string(text.substr(sign)));
}

Value swapped_case(Evaluation& evaluation, const Value& self, Arguments&) {
  const std::string& text = self.str();
  evaluation.spend(text.size());
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    auto c = UChar32(utf8_next(text, at));
    std::string_view piece = std::string_view(text).substr(begin, at - begin);
    if (u_isUUppercase(c))
      out += lower(piece);
    else
      out += u_isULowercase(c) ? upper(piece) : std::string(piece);
  }
  return evaluation.text(std::move(out));
}

template <bool kLast>
Value partition(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  Value separator = arguments.need(0, "sep");
  std::string_view by = text_of(separator, "the separator"), text = self.str();
  if (by.empty()) fail("the separator is empty");
  evaluation.spend_bytes(text.size());
  evaluation.pay_for_search(text.size(), by.size());
  size_t at = kLast ? text.rfind(by) : text.find(by);
  Value nothing{std::string()};
  if (at == text.npos) return kLast ? Value::tuple({nothing, nothing, self}) : Value::tuple({self, nothing, nothing});
  return Value::tuple({Value(text.substr(0, at)), separator, Value(text.substr(at + by.size()))});
}

Value get(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  Value key = arguments.need(0, "key");
  evaluation.spend(self.entries().size() / 16);
  const Value* found = key.text() ? self.find(key.str()) : nullptr;
  return found ? *found : arguments.get(1, "default", None{});
}

Value items(Evaluation& evaluation, const Value& self, Arguments&) {
  List out;
  for (const auto& [key, value] : self.entries()) {
    evaluation.spend(3), evaluation.spend_bytes(key.size());
    out.push_back(Value::tuple({Value(key), value}));
  }
  return Value::list(std::move(out));
}
Value keys(Evaluation& evaluation, const Value& self, Arguments&) { return Value::list(elements(evaluation, self)); }
Value values(Evaluation& evaluation, const Value& self, Arguments&) {
  List out;
  for (const auto& [key, value] : self.entries()) out.push_back(value);
  return evaluation.list(std::move(out));
}
Value same(Evaluation&, const Value& self, Arguments&) { return self; }

Value count_items(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  Value what = arguments.need(0, "value");
  evaluation.pay_for(self);
  return int64_t(std::count(self.items().begin(), self.items().end(), what));
}
Value index_of(Evaluation& evaluation, const Value& self, Arguments& arguments) {
  Value what = arguments.need(0, "value");
  evaluation.pay_for(self);
  auto at = std::find(self.items().begin(), self.items().end(), what);
  if (at == self.items().end()) fail("the value is not in the list");
  return int64_t(at - self.items().begin());
}

struct MethodEntry {
  std::string_view name;
  Method method;
};

constexpr MethodEntry kText[] = {
    {"strip", strip<Side::kBoth>},
    {"lstrip", strip<Side::kLeft>},
    {"rstrip", strip<Side::kRight>},
    {"upper", changed_str<upper>},
    {"lower", changed_str<lower>},
    {"casefold", changed_str<lower>},
    {"title", changed_str<titled>},
    {"capitalize", changed_str<capitalized>},
    {"startswith", has_affix<has_prefix>},
    {"endswith", has_affix<has_suffix>},
    {"split", split},
    {"rsplit", rsplit},
    {"splitlines", splitlines},
    {"replace", replace},
    {"join", join},
    {"find", place_of<false, false>},
    {"rfind", place_of<true, false>},
    {"index", place_of<false, true>},
    {"rindex", place_of<true, true>},
    {"count", count_text},
    {"isdigit", all_are<u_isdigit>},
    {"isnumeric", all_are<u_isdigit>},
    {"isalpha", all_are<u_isalpha>},
    {"isalnum", all_are<u_isalnum>},
    {"isspace", all_are<u_isUWhiteSpace>},
    {"isupper", is_upper},
    {"islower", is_lower},
    {"removeprefix", remove_prefix},
    {"removesuffix", remove_suffix},
    {"center", justified<Place::kCenter>},
    {"ljust", justified<Place::kLeft>},
    {"rjust", justified<Place::kRight>},
    {"zfill", zero_filled},
    {"swapcase", swapped_case},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
};
constexpr MethodEntry kDict[] = {{"get", get}, {"items", items}, {"keys", keys}, {"values", values}, {"copy", same}};
constexpr MethodEntry kList[] = {{"count", count_items}, {"index", index_of}, {"copy", same}};

}  // namespace

Value find_method(const Value& object, std::string_view name) {
  auto in = [&](const auto& table) -> Value {
    for (const MethodEntry& entry : table)
      if (entry.name == name)
        return Value::callable([object, method = entry.method](Evaluation& evaluation, Arguments& arguments) {
          if (object.text()) evaluation.pay_for_scan(object);
          return method(evaluation, object, arguments);
        });
    return {};
  };
  if (object.text()) return in(kText);
  if (object.dict()) return in(kDict);
  if (object.list()) return in(kList);
  return {};
}

}  // namespace jinja
