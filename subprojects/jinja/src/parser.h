// The parser: tokens -> ParsedTemplate. Errors name the line and what is wrong or not supported.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ast.h"
#include "lexer.h"

namespace jinja {

ParsedTemplate parse(std::string_view source);

// Expressions, by precedence from parse() down; the tokens are shared with the statements' parser.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  bool is(Token::Kind kind) const { return now().kind == kind; }
  bool is_name(std::string_view name) const { return is(Token::Kind::kName) && now().text == name; }
  bool is_op(std::string_view op) const { return is(Token::Kind::kOperator) && now().text == op; }
  bool accept_name(std::string_view name) { return is_name(name) && (++at_, true); }
  bool accept_op(std::string_view op) { return is_op(op) && (++at_, true); }
  void expect_op(std::string_view op);
  std::string expect_any_name();
  Token take() { return tokens_[at_ < tokens_.size() - 1 ? at_++ : at_]; }  // the last is kEnd, for ever
  [[noreturn]] void fault(const std::string& what) const;
  [[noreturn]] void unexpected() const;
  uint32_t id_of(const std::string& name);

  ExprPtr expression(bool conditional = true);  // conditional: `a if b else c` is one
  ExprPtr tuple(bool conditional = true);       // an expression, or several with commas between
  ExprPtr filter_chain(std::unique_ptr<Expr> input);
  std::unique_ptr<Expr> filter(ExprPtr input);  // behind `|`
  void arguments(Expr& call);                   // behind `(`

  std::vector<std::string> names_;

 private:
  using Level = ExprPtr (ExpressionParser::*)();
  std::unique_ptr<Expr> make(Expr::Kind kind) const;
  ExprPtr done(std::unique_ptr<Expr> expr) const;  // counts its depth
  ExprPtr unary_of(Expr::Kind kind, ExprPtr arg) const;
  ExprPtr binary_of(Op op, ExprPtr left, ExprPtr right) const;
  // Operands with that word between them, from the left.
  ExprPtr chain(std::string_view word, Expr::Kind kind, Level operand);
  ExprPtr or_();
  ExprPtr and_();
  ExprPtr not_();
  ExprPtr comparison();
  bool comparison_op(Op& op);
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool filters = true);
  ExprPtr primary();
  ExprPtr name_or_constant();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr expr);
  ExprPtr subscript(ExprPtr expr);
  ExprPtr filters_and_tests(ExprPtr expr);
  ExprPtr test(ExprPtr expr);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nested_ = 0;
  std::map<std::string, uint32_t, std::less<>> ids_;
};

}  // namespace jinja
