// The functions that templates call, and the access to containers that filters and loops share.
#include <algorithm>
#include <ctime>

#include "builtins.h"
#include "evaluation.h"
#include "utf8.h"

namespace jinja {

namespace {

constexpr int64_t kMaxRange = 100'000;  // as Jinja's sandbox

Value range(Evaluation& evaluation, Arguments& arguments) {
  const List& given = arguments.values;
  if (given.empty() || given.size() > 3 || !arguments.named.empty()) fail("range takes one to three numbers");
  int64_t from = given.size() > 1 ? given[0].to_int("range's start") : 0;
  int64_t to = given[given.size() > 1 ? 1 : 0].to_int("range's end");
  int64_t step = given.size() > 2 ? given[2].to_int("range's step") : 1;
  if (step == 0) fail("range's step cannot be zero");
  List out;
  for (int64_t i = from; step > 0 ? i < to : i > to;) {
    if (int64_t(out.size()) >= kMaxRange) exceed_limit("a range is longer than 100000");
    out.push_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return evaluation.list(std::move(out));
}

Dict named_fields(Evaluation& evaluation, Arguments& arguments) {
  Dict fields;
  if (!arguments.values.empty()) {
    if (arguments.values.size() > 1 || !arguments.values[0].dict()) fail("namespace and dict take names, or a dict");
    evaluation.spend(arguments.values[0].entries().size());
    for (const auto& [key, item] : arguments.values[0].entries()) evaluation.spend_bytes(key.size());
    fields = arguments.values[0].entries();
  }
  for (auto& [name, value] : arguments.named) fields.emplace_back(name, std::move(value));
  return fields;
}

Value strftime_now(Evaluation& evaluation, Arguments& arguments) {
  Value format = arguments.need(0, "format");
  if (!format.text() || format.str().size() > 256) fail("strftime_now takes a format of at most 256 bytes");
  std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char buffer[4096];
  return evaluation.text(std::string(buffer, std::strftime(buffer, sizeof buffer, format.str().c_str(), &parts)));
}

Value raise_exception(Evaluation&, Arguments& arguments) {
  throw Exception{{Error::Kind::kTemplate, arguments.need(0, "message").to_text()}, true};
}

}  // namespace

Value find_function(std::string_view name) {
  if (name == "range") return Value::callable(range);
  if (name == "namespace")
    return Value::callable(
        [](Evaluation& evaluation, Arguments& given) { return Value::name_space(named_fields(evaluation, given)); });
  if (name == "dict")
    return Value::callable(
        [](Evaluation& evaluation, Arguments& given) { return Value::dict(named_fields(evaluation, given)); });
  if (name == "raise_exception") return Value::callable(raise_exception);
  if (name == "strftime_now") return Value::callable(strftime_now);
  return {};
}

List elements(Evaluation& evaluation, const Value& value) {
  if (value.undefined()) return {};
  if (value.list()) {
    evaluation.spend(value.items().size());
    return value.items();
  }
  List out;
  if (value.dict()) {
    for (const auto& [key, item] : value.entries()) {
      evaluation.spend_bytes(key.size());
      out.emplace_back(key);
    }
  } else if (value.text()) {
    const std::string& text = value.str();
    evaluation.spend(text.size());
    for (size_t at = 0; at < text.size(); at += utf8_size(text[at]))
      out.emplace_back(text.substr(at, utf8_size(text[at])));
  } else {
    fail("a value of type " + std::string(value.kind()) + " has no elements");
  }
  evaluation.spend(out.size());
  return out;
}

bool contains(const Value& container, const Value& item) {
  if (container.undefined()) return false;
  if (container.list())
    return std::find(container.items().begin(), container.items().end(), item) != container.items().end();
  if (container.dict()) return item.text() && container.find(item.str());
  if (container.text()) {
    if (!item.text()) fail("only a str can be in a str, not a " + std::string(item.kind()));
    return container.str().find(item.str()) != std::string::npos;
  }
  fail("nothing can be in a value of type " + std::string(container.kind()));
}

int64_t size_of(const Value& value) {
  if (value.undefined()) return 0;
  if (value.text()) return length(value.str());
  if (value.list()) return int64_t(value.items().size());
  if (value.dict()) return int64_t(value.entries().size());
  fail("a value of type " + std::string(value.kind()) + " has no length");
}

}  // namespace jinja
