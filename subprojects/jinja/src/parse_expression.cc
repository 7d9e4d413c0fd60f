// The grammar of Jinja's expressions, as its own parser descends it:
//   condexpr := or ('if' or ['else' condexpr])*     or := and ('or' and)*      and := not ('and' not)*
//   not := 'not' not | compare                       compare := sum (('=='|…|'in'|'not' 'in') sum)*
//   sum := concat (('+'|'-') concat)*   concat := product ('~' product)*   product := power (('*'|'/'|'//'|'%') power)*
//   power := unary ('**' unary)*        unary := ('-'|'+') unary | primary postfix* (filter | test)*
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "builtins.h"
#include "parser.h"

namespace jinja {

namespace {

constexpr int kMaxExpressionDepth = 200;

struct Nested {
  explicit Nested(int& count) : count_(count) { ++count_; }
  ~Nested() { --count_; }
  int& count_;
};

}  // namespace

void ExpressionParser::fault(const std::string& what) const {
  throw Exception{{Error::Kind::kTemplate, "line " + std::to_string(now().line) + ": " + what}, true};
}

void ExpressionParser::unexpected() const {
  if (is(Token::Kind::kEnd)) fault("the template ends too early");
  fault("unexpected " + (now().text.empty() ? std::string("end of the tag") : "'" + now().text.substr(0, 100) + "'"));
}

void ExpressionParser::expect_op(std::string_view op) {
  if (!accept_op(op)) unexpected();
}

std::string ExpressionParser::expect_any_name() {
  if (!is(Token::Kind::kName)) unexpected();
  return take().text;
}

uint32_t ExpressionParser::id_of(const std::string& name) {
  auto [it, fresh] = ids_.try_emplace(name, uint32_t(names_.size()));
  if (fresh) names_.push_back(name);
  return it->second;
}

std::unique_ptr<Expr> ExpressionParser::make(Expr::Kind kind) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = now().line;
  return expr;
}

ExprPtr ExpressionParser::done(std::unique_ptr<Expr> expr) const {
  int deepest = 0;
  for (const auto& arg : expr->args)
    if (arg) deepest = std::max<int>(deepest, arg->depth);
  for (const auto& [name, arg] : expr->named) deepest = std::max<int>(deepest, arg->depth);
  if (deepest >= kMaxExpressionDepth) fault("the expression is nested too deeply");
  expr->depth = uint16_t(deepest + 1);
  return expr;
}

ExprPtr ExpressionParser::unary_of(Expr::Kind kind, ExprPtr arg) const {
  auto expr = make(kind);
  expr->args.push_back(std::move(arg));
  return done(std::move(expr));
}

ExprPtr ExpressionParser::binary_of(Op op, ExprPtr left, ExprPtr right) const {
  auto expr = make(Expr::Kind::kBinary);
  expr->op = op;
  expr->args.push_back(std::move(left));
  expr->args.push_back(std::move(right));
  return done(std::move(expr));
}

ExprPtr ExpressionParser::expression(bool conditional) {
  Nested nested(nested_);
  if (nested_ > kMaxExpressionDepth) fault("the expression is nested too deeply");
  if (!conditional) return or_();
  ExprPtr left = or_();
  while (accept_name("if")) {
    auto expr = make(Expr::Kind::kIf);
    expr->args.push_back(std::move(left));
    expr->args.push_back(or_());
    expr->args.push_back(accept_name("else") ? expression() : nullptr);
    left = done(std::move(expr));
  }
  return left;
}

ExprPtr ExpressionParser::tuple(bool conditional) {
  ExprPtr first = expression(conditional);
  if (!is_op(",")) return first;
  auto list = make(Expr::Kind::kTuple);
  list->args.push_back(std::move(first));
  while (accept_op(",")) {
    if (is(Token::Kind::kBlockEnd) || is(Token::Kind::kVariableEnd) || is_op(")")) break;
    list->args.push_back(expression(conditional));
  }
  return done(std::move(list));
}

ExprPtr ExpressionParser::chain(std::string_view word, Expr::Kind kind, Level operand) {
  ExprPtr left = (this->*operand)();
  while (accept_name(word)) {
    auto expr = make(kind);
    expr->args.push_back(std::move(left));
    expr->args.push_back((this->*operand)());
    left = done(std::move(expr));
  }
  return left;
}

ExprPtr ExpressionParser::or_() { return chain("or", Expr::Kind::kOr, &ExpressionParser::and_); }
ExprPtr ExpressionParser::and_() { return chain("and", Expr::Kind::kAnd, &ExpressionParser::not_); }

ExprPtr ExpressionParser::not_() {
  Nested nested(nested_);
  if (nested_ > kMaxExpressionDepth) fault("the expression is nested too deeply");
  if (accept_name("not")) return unary_of(Expr::Kind::kNot, not_());
  return comparison();
}

bool ExpressionParser::comparison_op(Op& op) {
  static constexpr std::pair<std::string_view, Op> kOps[] = {{"==", Op::kEq}, {"!=", Op::kNe}, {"<=", Op::kLe},
                                                             {">=", Op::kGe}, {"<", Op::kLt},  {">", Op::kGt}};
  for (const auto& [text, found] : kOps)
    if (accept_op(text)) return op = found, true;
  if (accept_name("in")) return op = Op::kIn, true;
  if (!is_name("not") || ahead().kind != Token::Kind::kName || ahead().text != "in") return false;
  take(), take();
  return op = Op::kNotIn, true;
}

ExprPtr ExpressionParser::comparison() {
  ExprPtr left = sum();
  Op op;
  if (!comparison_op(op)) return left;
  auto expr = make(Expr::Kind::kCompare);
  expr->args.push_back(std::move(left));
  do {
    expr->ops.push_back(op);
    expr->args.push_back(sum());
  } while (comparison_op(op));
  return done(std::move(expr));
}

ExprPtr ExpressionParser::sum() {
  ExprPtr left = concat();
  while (is_op("+") || is_op("-")) {
    Op op = take().text == "+" ? Op::kAdd : Op::kSub;
    left = binary_of(op, std::move(left), concat());
  }
  return left;
}

ExprPtr ExpressionParser::concat() {
  ExprPtr left = product();
  if (!is_op("~")) return left;
  auto expr = make(Expr::Kind::kConcat);
  expr->args.push_back(std::move(left));
  while (accept_op("~")) expr->args.push_back(product());
  return done(std::move(expr));
}

ExprPtr ExpressionParser::product() {
  ExprPtr left = power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    std::string op = take().text;
    Op which = op == "*" ? Op::kMul : op == "/" ? Op::kDiv : op == "//" ? Op::kFloorDiv : Op::kMod;
    left = binary_of(which, std::move(left), power());
  }
  return left;
}

ExprPtr ExpressionParser::power() {
  ExprPtr left = unary();
  while (accept_op("**")) left = binary_of(Op::kPow, std::move(left), unary());
  return left;
}

ExprPtr ExpressionParser::unary(bool filters) {
  Nested nested(nested_);
  if (nested_ > kMaxExpressionDepth) fault("the expression is nested too deeply");
  ExprPtr expr;
  if (accept_op("-"))
    expr = unary_of(Expr::Kind::kNegate, unary(false));
  else if (accept_op("+"))
    expr = unary_of(Expr::Kind::kPlus, unary(false));
  else
    expr = primary();
  expr = postfix(std::move(expr));
  return filters ? filters_and_tests(std::move(expr)) : std::move(expr);
}

ExprPtr ExpressionParser::name_or_constant() {
  std::string name = take().text;
  auto constant = make(Expr::Kind::kConst);
  if (name == "true" || name == "True")
    constant->value = true;
  else if (name == "false" || name == "False")
    constant->value = false;
  else if (name == "none" || name == "None")
    constant->value = None{};
  else {
    auto expr = make(Expr::Kind::kName);
    expr->name_id = id_of(name);
    expr->name = std::move(name);
    return expr;
  }
  return constant;
}

ExprPtr ExpressionParser::primary() {
  if (is(Token::Kind::kName)) return name_or_constant();
  auto constant = make(Expr::Kind::kConst);
  if (is(Token::Kind::kString)) {
    std::string text;
    while (is(Token::Kind::kString)) text += take().text;
    constant->value = Value(std::move(text));
    return constant;
  }
  if (is(Token::Kind::kInteger)) {
    std::string digits = take().text;
    int64_t number = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc())
      fault("the number is too large");
    constant->value = number;
    return constant;
  }
  if (is(Token::Kind::kFloat)) {
    constant->value = std::strtod(take().text.c_str(), nullptr);
    return constant;
  }
  if (accept_op("(")) {
    if (accept_op(")")) return make(Expr::Kind::kTuple);
    ExprPtr inner = tuple();
    expect_op(")");
    return inner;
  }
  if (accept_op("[")) return list();
  if (accept_op("{")) return dict();
  unexpected();
}

ExprPtr ExpressionParser::list() {
  auto expr = make(Expr::Kind::kList);
  while (!accept_op("]")) {
    if (!expr->args.empty()) expect_op(",");
    if (accept_op("]")) break;
    expr->args.push_back(expression());
  }
  return done(std::move(expr));
}

ExprPtr ExpressionParser::dict() {
  auto expr = make(Expr::Kind::kDict);
  while (!accept_op("}")) {
    if (!expr->args.empty()) expect_op(",");
    if (accept_op("}")) break;
    expr->args.push_back(expression());
    expect_op(":");
    expr->args.push_back(expression());
  }
  return done(std::move(expr));
}

ExprPtr ExpressionParser::postfix(ExprPtr expr) {
  while (true) {
    if (accept_op(".")) {
      auto attr = make(is(Token::Kind::kInteger) ? Expr::Kind::kItem : Expr::Kind::kAttr);
      attr->args.push_back(std::move(expr));
      if (attr->kind == Expr::Kind::kItem)
        attr->args.push_back(primary());
      else
        attr->name = expect_any_name();
      expr = done(std::move(attr));
    } else if (accept_op("[")) {
      expr = subscript(std::move(expr));
    } else if (accept_op("(")) {
      auto call = make(Expr::Kind::kCall);
      call->args.push_back(std::move(expr));
      arguments(*call);
      expr = done(std::move(call));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::subscript(ExprPtr object) {
  auto expr = make(Expr::Kind::kItem);
  expr->args.push_back(std::move(object));
  auto part = [&] { return is_op(":") || is_op("]") ? nullptr : expression(); };
  expr->args.push_back(part());
  if (is_op(":")) {
    expr->kind = Expr::Kind::kSlice;
    accept_op(":");
    expr->args.push_back(part());
    expr->args.push_back(accept_op(":") ? part() : nullptr);
  } else if (!expr->args[1]) {
    unexpected();
  }
  expect_op("]");
  return done(std::move(expr));
}

void ExpressionParser::arguments(Expr& call) {
  bool first = true;
  while (!accept_op(")")) {
    if (!first) expect_op(",");
    first = false;
    if (accept_op(")")) break;
    if (is_op("*") || is_op("**")) fault("* and ** in calls are not supported");
    if (is(Token::Kind::kName) && ahead().kind == Token::Kind::kOperator && ahead().text == "=") {
      std::string name = take().text;
      take();
      call.named.emplace_back(std::move(name), expression());
    } else {
      if (!call.named.empty()) fault("an argument by position follows one by name");
      call.args.push_back(expression());
    }
  }
}

std::unique_ptr<Expr> ExpressionParser::filter(ExprPtr input) {
  auto expr = make(Expr::Kind::kFilter);
  expr->name = expect_any_name();
  expr->filter = find_filter(expr->name);
  expr->args.push_back(std::move(input));
  if (accept_op("(")) arguments(*expr);
  return expr;
}

ExprPtr ExpressionParser::filters_and_tests(ExprPtr expr) {
  while (true) {
    if (accept_op("|")) {
      expr = done(filter(std::move(expr)));
    } else if (accept_name("is")) {
      expr = test(std::move(expr));
    } else if (accept_op("(")) {
      auto call = make(Expr::Kind::kCall);
      call->args.push_back(std::move(expr));
      arguments(*call);
      expr = done(std::move(call));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::filter_chain(std::unique_ptr<Expr> input) {
  ExprPtr chain = done(std::move(input));
  while (accept_op("|")) chain = done(filter(std::move(chain)));
  return chain;
}

ExprPtr ExpressionParser::test(ExprPtr expr) {
  bool negated = accept_name("not");
  auto test = make(Expr::Kind::kTest);
  test->name = expect_any_name();
  test->test = find_test(test->name);
  test->args.push_back(std::move(expr));
  using Kind = Token::Kind;
  if (accept_op("(")) {
    arguments(*test);
  } else if ((is(Kind::kName) && !is_name("else") && !is_name("or") && !is_name("and") && !is_name("if")) ||
             is(Kind::kString) || is(Kind::kInteger) || is(Kind::kFloat) || is_op("[") || is_op("{")) {
    if (is_name("is")) fault("tests cannot be chained");
    // `x is in y`, `x is divisibleby 3`: one argument without parentheses.
    test->args.push_back(postfix(primary()));
  }
  ExprPtr out = done(std::move(test));
  return negated ? unary_of(Expr::Kind::kNot, std::move(out)) : std::move(out);
}

}  // namespace jinja
