#include <algorithm>
#include <cmath>

#include "builtins.h"
#include "evaluation.h"
#include "format.h"
#include "utf8.h"

namespace jinja {

namespace {

std::string kinds(const Value& a, const Value& b) { return std::string(a.kind()) + " and " + std::string(b.kind()); }

Value whole(Op op, int64_t a, int64_t b) {
  int64_t out = 0;
  bool wrapped = false;
  switch (op) {
    case Op::kAdd: wrapped = __builtin_add_overflow(a, b, &out); break;
    case Op::kSub: wrapped = __builtin_sub_overflow(a, b, &out); break;
    case Op::kMul: wrapped = __builtin_mul_overflow(a, b, &out); break;
    case Op::kPow:
      if (b < 0) return std::pow(double(a), double(b));
      out = 1;
      for (int64_t i = 0; i < b && !wrapped; ++i) {
        wrapped = __builtin_mul_overflow(out, a, &out);
        if (out == 0 || (out == 1 && a == 1)) break;
        if (i > 128 && a == -1) fail("the exponent is too large");
      }
      break;
    case Op::kDiv:
      if (b == 0) fail("division by zero");
      return double(a) / double(b);
    default:  // kFloorDiv, kMod
      if (b == 0) fail("division by zero");
      if (b == -1) return op == Op::kMod ? Value(int64_t(0)) : whole(Op::kSub, 0, a);
      int64_t quotient = a / b, rest = a % b;
      if (rest != 0 && (rest < 0) != (b < 0)) --quotient, rest += b;
      out = op == Op::kMod ? rest : quotient;
  }
  if (wrapped) fail("the number is too large");
  return out;
}

Value real(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd: return a + b;
    case Op::kSub: return a - b;
    case Op::kMul: return a * b;
    case Op::kPow: return std::pow(a, b);
    default: break;
  }
  if (b == 0) fail("division by zero");
  if (op == Op::kDiv) return a / b;
  double quotient = std::floor(a / b);
  if (op == Op::kFloorDiv) return quotient;
  double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// [from, to) by step, as Python clips a slice.
struct Span {
  int64_t from, to, step;
};

Span span_of(const Value& from, const Value& to, const Value& step, int64_t size) {
  auto given = [](const Value& v) { return !v.none() && !v.undefined(); };
  int64_t by = given(step) ? step.to_int("the slice's step") : 1;
  if (by == 0) fail("a slice's step cannot be zero");
  int64_t least = by > 0 ? 0 : -1, most = by > 0 ? size : size - 1;
  auto clip = [&](const Value& v, int64_t fallback) {
    if (!given(v)) return fallback;
    int64_t i = v.to_int("the slice's border");
    if (i < 0) i = i < -size ? least : i + size;
    return std::clamp(i, least, most);
  };
  return {clip(from, by > 0 ? least : most), clip(to, by > 0 ? most : least), by};
}

}  // namespace

Value Evaluation::eval(const Expr& expr, const Scope& scope) {
  spend(1);
  if (++depth_ > kMaxDepth) {
    --depth_;
    exceed_limit("the template is nested too deeply");
  }
  struct Up {
    int& depth;
    ~Up() { --depth; }
  } up{depth_};
  return eval_kind(expr, scope);
}

Value Evaluation::eval_kind(const Expr& expr, const Scope& scope) {
  using Kind = Expr::Kind;
  auto arg = [&](size_t i) { return eval(*expr.args[i], scope); };
  switch (expr.kind) {
    case Kind::kConst: return expr.value;
    case Kind::kName: return name(expr, scope);
    case Kind::kList:
    case Kind::kTuple: {
      List items;
      for (const auto& item : expr.args) items.push_back(eval(*item, scope));
      return expr.kind == Kind::kList ? Value::list(std::move(items)) : Value::tuple(std::move(items));
    }
    case Kind::kDict: return dict(expr, scope);
    case Kind::kAttr:
    case Kind::kItem: {
      Value object = arg(0);
      if (object.undefined())
        fail(expr.args[0]->name.empty() ? "an undefined value is read from"
                                        : "'" + expr.args[0]->name + "' is undefined");
      return expr.kind == Kind::kAttr ? attribute(object, expr.name) : item(object, arg(1));
    }
    case Kind::kSlice: return slice(expr, scope);
    case Kind::kCall: {
      Value what = arg(0);
      if (what.undefined()) fail("'" + expr.args[0]->name + "' is undefined and cannot be called");
      Arguments given = arguments(expr, scope);
      return call(what, given);
    }
    case Kind::kFilter: return filter(expr, scope, nullptr);
    case Kind::kTest: return test(expr, scope);
    case Kind::kNot: return !arg(0).truth();
    case Kind::kNegate: {
      Value value = arg(0);
      return value.real() ? Value(-value.to_real()) : whole(Op::kSub, 0, value.to_int("the operand of -"));
    }
    case Kind::kPlus: return arg(0);
    case Kind::kBinary: {
      Value left = arg(0);
      return binary(expr.op, left, arg(1));
    }
    case Kind::kCompare: return compare_all(expr, scope);
    case Kind::kAnd: {
      Value left = arg(0);
      return left.truth() ? arg(1) : left;
    }
    case Kind::kOr: {
      Value left = arg(0);
      return left.truth() ? left : arg(1);
    }
    case Kind::kConcat: return concat(expr, scope);
    case Kind::kIf:
      if (arg(1).truth()) return arg(0);
      return expr.args[2] ? arg(2) : Value();
  }
  return {};
}

Value Evaluation::name(const Expr& expr, const Scope& scope) {
  for (const Scope* at = &scope; at; at = at->outer) {
    spend(at->names.size() / 16);
    for (const auto& [id, value] : at->names)
      if (id == expr.name_id) return value;
  }
  if (const Value* value = variables_.find(expr.name)) return *value;
  return find_function(expr.name);
}

Value Evaluation::dict(const Expr& expr, const Scope& scope) {
  Dict entries;
  for (size_t i = 0; i + 1 < expr.args.size(); i += 2) {
    Value key = eval(*expr.args[i], scope);
    if (!key.text()) fail("a dict's key is a " + std::string(key.kind()) + ", not a str");
    Value value = eval(*expr.args[i + 1], scope);
    spend_bytes(key.str().size());
    auto old = std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.first == key.str(); });
    if (old != entries.end())
      old->second = std::move(value);
    else
      entries.emplace_back(key.str(), std::move(value));
  }
  return Value::dict(std::move(entries));
}

namespace {

// loop.cycle(): the argument whose turn it is.
Value cycle_of(const Value& loop) {
  int64_t index = loop.find("index0")->to_int("the index");
  return Value::callable([index](Evaluation&, Arguments& arguments) {
    if (arguments.values.empty()) fail("there is nothing to cycle through");
    return arguments.values[size_t(index) % arguments.values.size()];
  });
}

}  // namespace

Value Evaluation::attribute(const Value& object, std::string_view name) {
  if (object.undefined()) fail("an undefined value has no attribute '" + std::string(name) + "'");
  // As getattr() before a look-up: a dict's methods hide its keys.
  if (Value method = find_method(object, name); !method.undefined()) return method;
  if (!object.dict() && !object.name_space()) return {};
  if (object.name_space() && object.space().loop && name == "cycle") return cycle_of(object);
  spend((object.dict() ? object.entries() : object.space().fields).size() / 16);
  const Value* found = object.find(name);
  return found ? *found : Value();
}

Value Evaluation::item(const Value& object, const Value& key) {
  if (key.text()) {
    if (object.dict() || object.name_space()) {
      spend((object.dict() ? object.entries() : object.space().fields).size() / 16);
      if (const Value* found = object.find(key.str())) return *found;
    }
    return find_method(object, key.str());
  }
  if (!key.integer() && !key.boolean()) return {};
  int64_t i = key.to_int("the index");
  if (!object.list() && !object.text()) return {};
  int64_t size = size_of(object);
  if (i < 0) i += size;
  if (i < 0 || i >= size) return {};
  if (object.list()) return object.items()[size_t(i)];
  spend(object.str().size() / 64);
  return Value(slice_text(object.str(), i, i + 1));
}

Value Evaluation::slice(const Expr& expr, const Scope& scope) {
  Value object = eval(*expr.args[0], scope);
  auto part = [&](size_t i) { return expr.args[i] ? eval(*expr.args[i], scope) : Value(); };
  Value from = part(1), to = part(2), step = part(3);
  if (object.undefined()) return Value::list({});
  if (object.text()) pay_for_scan(object);
  if (!object.list() && !object.text()) fail("a value of type " + std::string(object.kind()) + " cannot be sliced");
  Span span = span_of(from, to, step, size_of(object));
  if (object.text() && span.step == 1)
    return text(std::string(slice_text(object.str(), span.from, std::max(span.from, span.to))));
  List items = elements(*this, object), out;
  for (int64_t i = span.from; span.step > 0 ? i < span.to : i > span.to;) {
    out.push_back(items[size_t(i)]);
    if (__builtin_add_overflow(i, span.step, &i)) break;
  }
  if (object.list()) return list(std::move(out));
  std::string joined;
  for (const Value& c : out) joined += c.str();
  return text(std::move(joined));
}

Arguments Evaluation::arguments(const Expr& expr, const Scope& scope) {
  Arguments out;
  for (size_t i = 1; i < expr.args.size(); ++i) out.values.push_back(eval(*expr.args[i], scope));
  for (const auto& [name, value] : expr.named) out.named.emplace_back(name, eval(*value, scope));
  return out;
}

Value Evaluation::filter(const Expr& expr, const Scope& scope, const Value* input) {
  // In a filter block the innermost filter of the chain gets the text.
  Value piped;
  if (!expr.args[0])
    piped = *input;
  else
    piped = input ? filter(*expr.args[0], scope, input) : eval(*expr.args[0], scope);
  Arguments given = arguments(expr, scope);
  return apply_filter(expr.filter, expr.name, piped, given);
}

Value Evaluation::apply_filter(FilterFn filter, std::string_view name, const Value& input, Arguments& arguments) {
  if (!filter) fail("the filter '" + std::string(name.substr(0, 100)) + "' is not supported");
  spend(1);
  // Filters pay for what they look at in lists and dicts.
  if (input.text()) pay_for_scan(input);
  for (const Value& value : arguments.values)
    if (value.text()) pay_for(value);
  return filter(*this, input, arguments);
}

Value Evaluation::test(const Expr& expr, const Scope& scope) {
  if (!expr.test) fail("the test '" + expr.name.substr(0, 100) + "' is not supported");
  Value value = eval(*expr.args[0], scope);
  Arguments given = arguments(expr, scope);
  return tested(expr.test, value, given);
}

bool Evaluation::tested(TestFn test, const Value& value, Arguments& arguments) {
  static const TestFn kIn = find_test("in");
  spend(1);
  if (arguments.values.empty() && value.text()) pay_for_scan(value);
  for (const Value& other : arguments.values) {
    if (test == kIn && value.text() && other.text()) pay_for_search(other.str().size(), value.str().size());
    if (other.dict()) spend(other.entries().size() / 16);
    other.list() ? pay_for(other) : pay_for(value, other);
  }
  return test(value, arguments);
}

Value Evaluation::compare_all(const Expr& expr, const Scope& scope) {
  Value left = eval(*expr.args[0], scope);
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = eval(*expr.args[i + 1], scope);
    if (!binary(expr.ops[i], left, right).truth()) return false;
    left = std::move(right);
  }
  return true;
}

Value Evaluation::concat(const Expr& expr, const Scope& scope) {
  std::string out;
  for (const auto& arg : expr.args) {
    Value value = eval(*arg, scope);
    write(out, value);
  }
  return Value(std::move(out));
}

Value Evaluation::repeat(const Value& value, int64_t times) {
  auto size = uint64_t(value.text() ? value.str().size() : value.items().size());
  if (size > 0 && uint64_t(times) > kMaxBytes / size) exceed_limit("the template makes too much text");
  value.text() ? spend_bytes(size * uint64_t(times)) : spend(size * uint64_t(times));
  if (value.text()) {
    std::string out;
    out.reserve(size * size_t(times));
    if (size > 0)
      while (times-- > 0) out += value.str();
    return Value(std::move(out));
  }
  List out;
  if (size > 0)
    while (times-- > 0) out.insert(out.end(), value.items().begin(), value.items().end());
  return Value::list(std::move(out));
}

Value Evaluation::binary(Op op, const Value& left, const Value& right) {
  if (op >= Op::kEq && op <= Op::kGe) pay_for(left, right);
  switch (op) {
    case Op::kEq: return left == right;
    case Op::kNe: return !(left == right);
    case Op::kLt: return compare(left, right) < 0;
    case Op::kLe: return compare(left, right) <= 0;
    case Op::kGt: return compare(left, right) > 0;
    case Op::kGe: return compare(left, right) >= 0;
    case Op::kIn:
    case Op::kNotIn: {
      if (right.list()) left.weight() > 1 ? pay_for(right) : spend(right.items().size() / kPerStep);
      if (right.dict()) spend(right.entries().size() / 16);
      if (right.text()) pay_for_search(right.str().size(), left.text() ? left.str().size() : 0);
      return contains(right, left) == (op == Op::kIn);
    }
    default: break;
  }
  if (left.number() && right.number()) {
    if (left.real() || right.real()) return real(op, left.to_real(), right.to_real());
    return whole(op, left.to_int(""), right.to_int(""));
  }
  if (op == Op::kMod && left.text()) return formatted(*this, left.str(), right);
  if (op == Op::kAdd && left.text() && right.text()) {
    spend_bytes(left.str().size() + right.str().size());
    return Value(left.str() + right.str());
  }
  if (op == Op::kAdd && left.list() && right.list()) {
    spend(left.items().size() + right.items().size());
    List out = left.items();
    out.insert(out.end(), right.items().begin(), right.items().end());
    return Value::list(std::move(out));
  }
  if (op == Op::kMul && (left.text() || left.list()) && (right.integer() || right.boolean()))
    return repeat(left, std::max<int64_t>(0, right.to_int("")));
  if (op == Op::kMul && right.text() && left.integer()) return binary(op, right, left);
  fail("the operator does not work on " + kinds(left, right));
}

}  // namespace jinja
