// The tests behind `is`.
#include <algorithm>

#include "builtins.h"
#include "evaluation.h"

namespace jinja {

namespace {

bool equal(const Value& v, Arguments& a) { return v == a.need(0, "other"); }
bool unequal(const Value& v, Arguments& a) { return !equal(v, a); }
bool less(const Value& v, Arguments& a) { return compare(v, a.need(0, "other")) < 0; }
bool at_most(const Value& v, Arguments& a) { return compare(v, a.need(0, "other")) <= 0; }
bool greater(const Value& v, Arguments& a) { return compare(v, a.need(0, "other")) > 0; }
bool at_least(const Value& v, Arguments& a) { return compare(v, a.need(0, "other")) >= 0; }
bool in(const Value& v, Arguments& a) { return contains(a.need(0, "seq"), v); }
bool same(const Value& v, Arguments& a) { return v.same_object(a.need(0, "other")); }
bool odd(const Value& v, Arguments&) { return v.to_int("the number") % 2 != 0; }
bool even(const Value& v, Arguments&) { return v.to_int("the number") % 2 == 0; }

bool divisible(const Value& v, Arguments& a) {
  int64_t by = a.need(0, "num").to_int("the divisor");
  if (by == 0) fail("division by zero");
  return by == -1 || v.to_int("the number") % by == 0;
}

bool is_upper(const Value& v, Arguments&) {
  if (!v.text()) return false;
  const std::string& text = v.str();
  return upper(text) == text && lower(text) != text;
}
bool is_lower(const Value& v, Arguments&) {
  if (!v.text()) return false;
  const std::string& text = v.str();
  return lower(text) == text && upper(text) != text;
}

bool truth(const Value& v, Arguments&) { return v.boolean() && v.truth(); }
bool falsehood(const Value& v, Arguments&) { return v.boolean() && !v.truth(); }

struct TestEntry {
  std::string_view name;
  TestFn test;
};

constexpr TestEntry kTests[] = {
    {"defined", [](const Value& v, Arguments&) { return !v.undefined(); }},
    {"undefined", [](const Value& v, Arguments&) { return v.undefined(); }},
    {"none", [](const Value& v, Arguments&) { return v.none(); }},
    {"string", [](const Value& v, Arguments&) { return v.text(); }},
    {"mapping", [](const Value& v, Arguments&) { return v.dict(); }},
    {"sequence", [](const Value& v, Arguments&) { return v.text() || v.list() || v.dict() || v.undefined(); }},
    {"iterable", [](const Value& v, Arguments&) { return v.text() || v.list() || v.dict() || v.undefined(); }},
    {"number", [](const Value& v, Arguments&) { return v.number(); }},
    {"integer", [](const Value& v, Arguments&) { return v.integer(); }},
    {"float", [](const Value& v, Arguments&) { return v.real(); }},
    {"boolean", [](const Value& v, Arguments&) { return v.boolean(); }},
    {"true", truth},
    {"false", falsehood},
    {"callable", [](const Value& v, Arguments&) { return v.callable(); }},
    {"filter", [](const Value& v, Arguments&) { return v.text() && find_filter(v.str()) != nullptr; }},
    {"test", [](const Value& v, Arguments&) { return v.text() && find_test(v.str()) != nullptr; }},
    {"sameas", same},
    {"odd", odd},
    {"even", even},
    {"divisibleby", divisible},
    {"upper", is_upper},
    {"lower", is_lower},
    {"in", in},
    {"eq", equal},
    {"equalto", equal},
    {"==", equal},
    {"ne", unequal},
    {"!=", unequal},
    {"lt", less},
    {"lessthan", less},
    {"<", less},
    {"le", at_most},
    {"<=", at_most},
    {"gt", greater},
    {"greaterthan", greater},
    {">", greater},
    {"ge", at_least},
    {">=", at_least},
};

}  // namespace

TestFn find_test(std::string_view name) {
  for (const TestEntry& entry : kTests)
    if (entry.name == name) return entry.test;
  return nullptr;
}

}  // namespace jinja
