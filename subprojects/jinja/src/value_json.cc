#include "value_json.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "utf8.h"

namespace jinja {

namespace {

constexpr int kMaxJsonDepth = 190;

template <class Json>
Value convert(const Json& json, int depth) {
  if (depth > kMaxJsonDepth) exceed_limit("the JSON is nested too deeply");
  switch (json.type()) {
    case Json::value_t::null: return None{};
    case Json::value_t::boolean: return json.template get<bool>();
    case Json::value_t::number_integer: return json.template get<int64_t>();
    case Json::value_t::number_unsigned: {
      auto number = json.template get<uint64_t>();
      return number <= uint64_t(INT64_MAX) ? Value(int64_t(number)) : Value(double(number));
    }
    case Json::value_t::number_float: return json.template get<double>();
    case Json::value_t::string: return Value(repaired(json.template get_ref<const std::string&>()));
    case Json::value_t::array: {
      List items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(convert(item, depth + 1));
      return Value::list(std::move(items));
    }
    case Json::value_t::object: {
      Dict entries;
      entries.reserve(json.size());
      for (auto it = json.begin(); it != json.end(); ++it)
        entries.emplace_back(it.key(), convert(it.value(), depth + 1));
      return Value::dict(std::move(entries));
    }
    default: return {};
  }
}

class Dumper {
 public:
  explicit Dumper(const DumpOptions& options) : options_(options) {
    pretty_ = options.indent >= 0 || !options.indent_text.empty();
    unit_ = options.indent_text.empty() ? std::string(size_t(std::max<int64_t>(options.indent, 0)), ' ')
                                        : options.indent_text;
  }

  void value(const Value& v, int depth) {
    if (v.none())
      add("null");
    else if (v.boolean())
      add(v.truth() ? "true" : "false");
    else if (v.integer())
      add(v.repr());
    else if (v.real())
      number(v.to_real());
    else if (v.text())
      text(v.str());
    else if (v.list())
      list(v.items(), depth);
    else if (v.dict())
      dict(v.entries(), depth);
    else
      fail("a value of type " + std::string(v.kind()) + " cannot be written as JSON");
  }
  std::string take() { return std::move(out_); }

 private:
  void make_room(size_t more) {
    if (options_.make_room) options_.make_room(out_, more);
  }
  void add(std::string_view more) {
    make_room(more.size());
    out_ += more;
  }
  void number(double d) {
    if (std::isnan(d))
      add("NaN");
    else if (std::isinf(d))
      add(d < 0 ? "-Infinity" : "Infinity");
    else
      add(float_text(d));
  }
  void line(int depth) {
    if (!pretty_) return;
    add("\n");
    while (depth-- > 0) add(unit_);
  }
  void list(const List& items, int depth) {
    if (items.empty()) return add("[]");
    add("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) add(options_.item_separator);
      line(depth + 1);
      value(items[i], depth + 1);
    }
    line(depth);
    add("]");
  }
  void dict(const Dict& entries, int depth) {
    if (entries.empty()) return add("{}");
    std::vector<const Dict::value_type*> order;
    for (const auto& entry : entries) order.push_back(&entry);
    if (options_.sort) std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->first < b->first; });
    add("{");
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) add(options_.item_separator);
      line(depth + 1);
      text(order[i]->first);
      add(options_.key_separator);
      value(order[i]->second, depth + 1);
    }
    line(depth);
    add("}");
  }
  void escape(unsigned unit) {
    char buffer[16];
    std::snprintf(buffer, sizeof buffer, "\\u%04x", unit);
    out_ += buffer;
  }
  void text(std::string_view s) {
    constexpr size_t kPiece = 1024, kMostPerByte = 6, kMostOfCharacter = 4;
    add("\"");
    for (size_t at = 0, paid = 0; at < s.size();) {
      if (at >= paid) {
        const size_t piece = std::min(kPiece, s.size() - at);
        make_room(kMostPerByte * (piece + kMostOfCharacter));
        paid = at + piece;
      }
      auto c = static_cast<unsigned char>(s[at]);
      if (c >= 0x80 && options_.ascii) {
        char32_t code = utf8_next(s, at);
        if (code >= 0x10000) {
          escape(unsigned(0xD800 + ((code - 0x10000) >> 10)));
          code = 0xDC00 + ((code - 0x10000) & 0x3FF);
        }
        escape(unsigned(code));
        continue;
      }
      ++at;
      switch (c) {
        case '"': out_ += "\\\""; break;
        case '\\': out_ += "\\\\"; break;
        case '\n': out_ += "\\n"; break;
        case '\r': out_ += "\\r"; break;
        case '\t': out_ += "\\t"; break;
        case '\b': out_ += "\\b"; break;
        case '\f': out_ += "\\f"; break;
        default:
          if (c < 0x20)
            escape(c);
          else
            out_ += char(c);
      }
    }
    add("\"");
  }

  const DumpOptions& options_;
  std::string out_, unit_;
  bool pretty_;
};

}  // namespace

Value from_json(const nlohmann::json& json) { return convert(json, 0); }
Value from_json(const nlohmann::ordered_json& json) { return convert(json, 0); }

std::string dump(const Value& value, const DumpOptions& options) {
  Dumper dumper(options);
  dumper.value(value, 0);
  return dumper.take();
}

}  // namespace jinja
