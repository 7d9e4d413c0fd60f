// The filters, tests, methods and functions that templates may name.
#pragma once

#include <string_view>

#include "ast.h"

namespace jinja {

FilterFn find_filter(std::string_view name);  // null: not known
TestFn find_test(std::string_view name);

// The method of a str, dict or list, bound to it; undefined when the type has no such method. Methods that would change
// the object do not exist, as in the sandbox that chat templates are made for.
Value find_method(const Value& object, std::string_view name);
// range, namespace, dict, raise_exception, strftime_now; undefined for other names.
Value find_function(std::string_view name);

// The items, keys or characters that a for loop, `in`, list() and the like go through. A value without any fails.
List elements(Evaluation& evaluation, const Value& value);
bool contains(const Value& container, const Value& item);
int64_t size_of(const Value& value);  // len()

// Strings.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalized(std::string_view text);
std::string titled(std::string_view text);
enum class Side : uint8_t { kBoth, kLeft, kRight };
// Takes off white space, or the characters of `what` when it is text.
std::string_view stripped(Evaluation& evaluation, std::string_view text, Side side, const Value& what);
std::string_view trimmed(std::string_view text, Side side = Side::kBoth);  // white space
// `count` < 0: all.
std::string replaced(Evaluation& evaluation, std::string_view text, std::string_view from, std::string_view to,
                     int64_t count);

}  // namespace jinja
