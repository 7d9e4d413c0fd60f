#include "value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "utf8.h"

namespace jinja {

namespace {

constexpr uint32_t kMaxValueDepth = 200;
constexpr uint64_t kMaxReprWeight = 4'000'000;  // weight of what repr() writes

// A macro in a container could outlive its scope.
uint32_t depth_with(const Value& item) {
  if (item.callable()) fail("a " + std::string(item.kind()) + " inside a list or dict is not supported");
  if (item.depth() >= kMaxValueDepth) exceed_limit("lists and dicts are nested too deeply");
  return item.depth() + 1;
}

void append_repr(std::string& out, std::string_view text) {
  char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  out += quote;
  for (char c : text) {
    if (c == quote || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02x", unsigned(static_cast<unsigned char>(c)));
      out += escape;
    } else
      out += c;
  }
  out += quote;
}

uint64_t heavier(uint64_t weight, uint64_t by) { return std::min(weight + by, Value::kMaxWeight); }
uint64_t units(size_t bytes) { return 1 + bytes / Value::kPerUnit; }

uint64_t weight_of(const List& items) {
  uint64_t weight = 1;
  for (const Value& item : items) weight = heavier(weight, item.weight());
  return weight;
}

// Two dicts of n keys are compared in n² steps.
uint64_t weight_of(const Dict& entries) {
  uint64_t weight = 1 + entries.size() * entries.size() / 64;
  for (const auto& [key, item] : entries) weight = heavier(weight, units(key.size()) + item.weight());
  return weight;
}

bool space_in(const List& items) {
  return std::any_of(items.begin(), items.end(), [](const Value& item) { return item.holds_space(); });
}

uint32_t depth_of(const Dict& entries) {
  uint32_t depth = 1;
  for (const auto& [key, item] : entries) depth = std::max(depth, depth_with(item));
  return depth;
}

uint32_t depth_of(const List& items) {
  uint32_t depth = 1;
  for (const Value& item : items) depth = std::max(depth, depth_with(item));
  return depth;
}

}  // namespace

Value Value::list(List items) {
  uint32_t depth = depth_of(items);
  uint64_t weight = weight_of(items);
  bool space = space_in(items);
  return Value(std::make_shared<const ItemsBox>(ItemsBox{std::move(items), depth, false, space, weight}));
}

Value Value::tuple(List items) {
  uint32_t depth = depth_of(items);
  uint64_t weight = weight_of(items);
  bool space = space_in(items);
  return Value(std::make_shared<const ItemsBox>(ItemsBox{std::move(items), depth, true, space, weight}));
}

Value Value::dict(Dict entries) {
  uint32_t depth = depth_of(entries);
  uint64_t weight = weight_of(entries);
  bool space =
      std::any_of(entries.begin(), entries.end(), [](const auto& entry) { return entry.second.holds_space(); });
  return Value(std::make_shared<const MapBox>(MapBox{std::move(entries), depth, space, weight}));
}

Value Value::name_space(Dict fields) {
  uint32_t depth = depth_of(fields);
  return Value(std::make_shared<Namespace>(Namespace{std::move(fields), depth}));
}

Value Value::loop(Dict fields) {
  Value made = name_space(std::move(fields));
  made.space().loop = true;
  return made;
}

bool Value::holds_space() const {
  if (list()) return std::get<Items>(data_)->space;
  if (dict()) return std::get<Map>(data_)->space;
  return name_space();
}

uint32_t Value::depth() const {
  if (list()) return std::get<Items>(data_)->depth;
  if (dict()) return std::get<Map>(data_)->depth;
  if (name_space()) return space().depth;
  return 0;
}

uint64_t Value::weight() const {
  if (text()) return units(str().size());
  if (list()) return std::get<Items>(data_)->weight;
  if (dict()) return std::get<Map>(data_)->weight;
  return 1;
}

bool Value::same_object(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (text()) return str() == other.str();
  if (list()) return std::get<Items>(data_) == std::get<Items>(other.data_);
  if (dict()) return std::get<Map>(data_) == std::get<Map>(other.data_);
  if (name_space()) return std::get<Space>(data_) == std::get<Space>(other.data_);
  if (callable()) return std::get<Call>(data_) == std::get<Call>(other.data_);
  return *this == other;
}

bool Value::truth() const {
  if (undefined() || none()) return false;
  if (boolean()) return std::get<bool>(data_);
  if (integer()) return std::get<int64_t>(data_) != 0;
  if (real()) return std::get<double>(data_) != 0;
  if (text()) return !str().empty();
  if (list()) return !items().empty();
  if (dict()) return !entries().empty();
  return true;
}

int64_t Value::to_int(std::string_view what) const {
  if (integer()) return std::get<int64_t>(data_);
  if (boolean()) return std::get<bool>(data_);
  fail(std::string(what) + " is a " + std::string(kind()) + ", not an int");
}

double Value::to_real() const {
  if (real()) return std::get<double>(data_);
  return double(to_int("the number"));
}

std::string_view Value::kind() const {
  static constexpr std::string_view kNames[] = {"undefined", "None", "bool", "int",       "float",
                                                "str",       "list", "dict", "namespace", "callable"};
  return kNames[data_.index()];
}

std::string Value::to_text() const { return text() ? str() : undefined() ? std::string() : repr(); }

std::string Value::repr() const {
  std::string out;
  if (weight() > kMaxReprWeight) exceed_limit("the template makes too much text");
  if (undefined()) return "Undefined";
  if (none()) return "None";
  if (boolean()) return truth() ? "True" : "False";
  if (integer()) return std::to_string(std::get<int64_t>(data_));
  if (real()) return float_text(std::get<double>(data_));
  if (text()) {
    append_repr(out, str());
  } else if (list()) {
    for (const Value& item : items()) (out += out.empty() ? "" : ", ") += item.repr();
    if (!std::get<Items>(data_)->tuple) return "[" + out + "]";
    return "(" + out + (items().size() == 1 ? ",)" : ")");
  } else if (dict()) {
    for (const auto& [key, item] : entries()) {
      out += out.empty() ? "" : ", ";
      append_repr(out, key);
      (out += ": ") += item.repr();
    }
    return "{" + out + "}";
  } else {
    out = name_space() ? "<Namespace>" : "<function>";
  }
  return out;
}

const Value* Value::find(std::string_view key) const {
  const Dict& all = name_space() ? space().fields : entries();
  for (const auto& [name, value] : all)
    if (name == key) return &value;
  return nullptr;
}

bool operator==(const Value& a, const Value& b) {
  if (a.number() && b.number()) {
    if (a.real() || b.real()) return a.to_real() == b.to_real();
    return a.to_int("") == b.to_int("");
  }
  if (a.data_.index() != b.data_.index()) return false;
  if (a.undefined() || a.none()) return true;
  if (a.text()) return a.str() == b.str();
  if ((a.list() || a.dict()) && a.same_object(b)) return true;
  if (a.list()) return a.items() == b.items();
  if (!a.dict()) return a.same_object(b);
  if (a.entries().size() != b.entries().size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(), [&](const auto& entry) {
    const Value* other = b.find(entry.first);
    return other && *other == entry.second;
  });
}

int compare(const Value& a, const Value& b) {
  auto order = [](const auto& x, const auto& y) { return x < y ? -1 : y < x ? 1 : 0; };
  if (a.number() && b.number()) {
    if (a.real() || b.real()) return order(a.to_real(), b.to_real());
    return order(a.to_int(""), b.to_int(""));
  }
  if (a.text() && b.text()) return order(a.str(), b.str());
  if (a.list() && b.list()) {
    for (size_t i = 0; i < a.items().size() && i < b.items().size(); ++i)
      if (!(a.items()[i] == b.items()[i])) return compare(a.items()[i], b.items()[i]);
    return order(a.items().size(), b.items().size());
  }
  fail("a " + std::string(a.kind()) + " and a " + std::string(b.kind()) + " have no order");
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  // Python writes exponents below 1e-4 and from 1e16 on.
  double size = std::fabs(value);
  bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value, format).ptr;
  std::string out(buffer, end);
  if (!scientific && out.find('.') == out.npos) out += ".0";
  return out;
}

Value Arguments::get(size_t place, std::string_view name, Value fallback) const {
  if (place < values.size()) return values[place];
  for (const auto& [key, value] : named)
    if (key == name) return value;
  return fallback;
}

bool Arguments::has(size_t place, std::string_view name) const {
  return place < values.size() ||
         std::any_of(named.begin(), named.end(), [&](const auto& entry) { return entry.first == name; });
}

Value Arguments::need(size_t place, std::string_view name) const {
  if (!has(place, name)) fail("the argument '" + std::string(name) + "' is missing");
  return get(place, name);
}

int64_t length(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::string_view slice_text(std::string_view text, int64_t from, int64_t to) {
  size_t at = 0, begin = 0;
  for (int64_t i = 0; i < to; ++i) {
    if (i == from) begin = at;
    at += utf8_size(text[at]);
  }
  return to <= from ? std::string_view() : text.substr(begin, at - begin);
}

}  // namespace jinja
