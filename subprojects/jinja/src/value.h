// Value: a Python value as templates compute with it: undefined, None, bool, int, float, str, list, dict, and the two
// kinds that only templates have, namespaces and callables. Copies share; nothing but a namespace changes once it is
// made. One that comes to hold another may hold itself: Evaluation::keep() ends that.
//
// Inside the library an error is thrown as an Exception; Template catches it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/error.h"

namespace jinja {

struct Exception {
  Error error;
  bool has_place = false;  // the message names a line, or is the template's own
};
[[noreturn]] inline void fail(std::string what) { throw Exception{{Error::Kind::kTemplate, std::move(what)}}; }
[[noreturn]] inline void exceed_limit(std::string what) { throw Exception{{Error::Kind::kLimit, std::move(what)}}; }

class Value;
class Evaluation;
using List = std::vector<Value>;
// In order of insertion; keys are strings.
using Dict = std::vector<std::pair<std::string, Value>>;
struct Arguments;

struct Undefined {};
struct None {};
struct Namespace {
  Dict fields;
  uint32_t depth = 0;  // of what it was made with
  bool loop = false;   // the `loop` of a for
};
using Callable = std::function<Value(Evaluation&, Arguments&)>;

class Value {
 public:
  Value() = default;  // undefined
  Value(None) : data_(None{}) {}
  Value(bool b) : data_(b) {}
  Value(int64_t i) : data_(i) {}
  Value(double d) : data_(d) {}
  Value(std::string text) : data_(std::make_shared<const std::string>(std::move(text))) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char*) = delete;  // would be a bool
  static Value list(List items);
  static Value tuple(List items);  // a list that repr() shows with parentheses
  static Value dict(Dict items);
  static Value callable(Callable what) { return Value(std::make_shared<const Callable>(std::move(what))); }
  static Value name_space(Dict fields);
  static Value loop(Dict fields);

  bool undefined() const { return is<Undefined>(); }
  bool none() const { return is<None>(); }
  bool boolean() const { return is<bool>(); }
  bool integer() const { return is<int64_t>(); }
  bool real() const { return is<double>(); }
  bool number() const { return integer() || real() || boolean(); }
  bool text() const { return is<Text>(); }
  bool list() const { return is<Items>(); }  // or a tuple
  bool tuple() const { return list() && std::get<Items>(data_)->tuple; }
  bool dict() const { return is<Map>(); }
  bool name_space() const { return is<Space>(); }
  bool callable() const { return is<Call>(); }

  // Only of that kind.
  const std::string& str() const { return *std::get<Text>(data_); }
  const List& items() const { return std::get<Items>(data_)->items; }
  const Dict& entries() const { return std::get<Map>(data_)->entries; }
  Namespace& space() const { return *std::get<Space>(data_); }
  const Callable& call() const { return *std::get<Call>(data_); }
  bool same_object(const Value& other) const;

  bool truth() const;
  int64_t to_int(std::string_view what) const;  // of an int or bool; `what` names it in the error
  double to_real() const;                       // of a number
  // Both stop at what is too much text.
  std::string to_text() const;    // str()
  std::string repr() const;       // repr()
  std::string_view kind() const;  // "str", "list", …
  // Null when there is no such key.
  const Value* find(std::string_view key) const;
  uint32_t depth() const;    // lists, dicts and namespaces inside each other
  bool holds_space() const;  // it is a namespace, or has one in it
  // The cost of reading all of it, at least 1: a value counts in every place where it stands, so that a list of twice
  // the same list weighs twice as much. Saturates at kMaxWeight.
  uint64_t weight() const;
  static constexpr uint64_t kMaxWeight = uint64_t(1) << 50;
  static constexpr uint64_t kPerUnit = 16;  // bytes of text

  friend bool operator==(const Value& a, const Value& b);

 private:
  struct ItemsBox {
    List items;
    uint32_t depth;
    bool tuple;
    bool space;
    uint64_t weight;
  };
  struct MapBox {
    Dict entries;
    uint32_t depth;
    bool space;
    uint64_t weight;
  };
  using Text = std::shared_ptr<const std::string>;
  using Items = std::shared_ptr<const ItemsBox>;
  using Map = std::shared_ptr<const MapBox>;
  using Space = std::shared_ptr<Namespace>;
  using Call = std::shared_ptr<const Callable>;
  template <class T>
  explicit Value(std::shared_ptr<T> box) : data_(std::move(box)) {}
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }

  std::variant<Undefined, None, bool, int64_t, double, Text, Items, Map, Space, Call> data_;
};

// Arguments of a call: by position, then by name.
struct Arguments {
  List values;
  std::vector<std::pair<std::string, Value>> named;

  // The argument of this place or this name; `fallback` when it is not given.
  Value get(size_t place, std::string_view name, Value fallback = {}) const;
  bool has(size_t place, std::string_view name) const;
  Value need(size_t place, std::string_view name) const;
};

// -1, 0, 1 as Python orders numbers, strings and lists; an error for what it does not order.
int compare(const Value& a, const Value& b);
std::string float_text(double value);  // repr() of a float

// Characters of text.
int64_t length(std::string_view text);
std::string_view slice_text(std::string_view text, int64_t from, int64_t to);  // characters [from, to), in range

}  // namespace jinja
