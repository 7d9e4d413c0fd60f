// The statements of Jinja that chat templates use; blocks, inheritance, imports and call blocks are refused.
#include "parser.h"

#include <algorithm>

namespace jinja {

namespace {

constexpr int kMaxBlockDepth = 100;  // statements inside each other

class Parser : private ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  ParsedTemplate run() {
    ParsedTemplate out;
    out.body = body({});
    if (!is(Token::Kind::kEnd)) unexpected();
    out.names = std::move(names_);
    return out;
  }

 private:
  using Kind = Stmt::Kind;
  using Ends = std::vector<std::string_view>;

  // Statements up to a tag with one of these names, which stays: its name is the next token.
  Body body(const Ends& ends) {
    if (++nested_ > kMaxBlockDepth) fault("blocks are nested too deeply");
    Body out;
    while (!is(Token::Kind::kEnd)) {
      int line = now().line;
      if (is(Token::Kind::kData)) {
        out.push_back(text(take()));
      } else if (is(Token::Kind::kVariableBegin)) {
        take();
        auto stmt = make(Kind::kPrint, line);
        stmt->expr = tuple();
        if (!is(Token::Kind::kVariableEnd)) unexpected();
        take();
        out.push_back(std::move(stmt));
      } else {
        take();  // {%
        if (is(Token::Kind::kName) && std::find(ends.begin(), ends.end(), now().text) != ends.end()) break;
        if (auto stmt = statement(line)) out.push_back(std::move(stmt));
      }
    }
    if (is(Token::Kind::kEnd) && !ends.empty())
      fault("the template ends where " + std::string(ends.back()) + " is missing");
    --nested_;
    return out;
  }

  std::unique_ptr<Stmt> make(Kind kind, int line) {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->line = line;
    return stmt;
  }
  std::unique_ptr<Stmt> text(Token token) {
    auto stmt = make(Kind::kText, token.line);
    stmt->text = std::move(token.text);
    return stmt;
  }
  void end_tag() {
    if (!is(Token::Kind::kBlockEnd)) unexpected();
    take();
  }
  // The body of a block and its end tag.
  Body block(std::string_view end) {
    end_tag();
    Body out = body({end});
    take();
    end_tag();
    return out;
  }

  std::unique_ptr<Stmt> statement(int line) {
    std::string name = expect_any_name();
    if (name == "if") return if_(line);
    if (name == "for") return for_(line);
    if (name == "set") return set(line);
    if (name == "macro") return macro(line);
    if (name == "with") return with(line);
    if (name == "filter") return filter_block(line);
    if (name == "break" || name == "continue") {
      if (loops_ == 0) fault("'" + name + "' outside of a loop");
      end_tag();
      return make(name == "break" ? Kind::kBreak : Kind::kContinue, line);
    }
    if (name == "generation") {
      auto stmt = make(Kind::kGroup, line);
      stmt->body = block("endgeneration");
      return stmt;
    }
    fault("the statement '" + name.substr(0, 100) + "' is not supported");
  }

  std::unique_ptr<Stmt> if_(int line) {
    auto stmt = make(Kind::kIf, line);
    while (true) {
      ExprPtr condition = tuple(true);
      end_tag();
      Body then = body({"elif", "else", "endif"});
      stmt->branches.emplace_back(std::move(condition), std::move(then));
      std::string next = take().text;
      if (next == "elif") continue;
      if (next == "else") {
        stmt->branches.emplace_back(nullptr, block("endif"));
      } else {
        end_tag();
      }
      return stmt;
    }
  }

  Target names() {
    Target target;
    bool parenthesised = accept_op("(");
    do {
      if (target.unpack && !is(Token::Kind::kName)) break;  // a last comma
      target.names.push_back(id_of(expect_any_name()));
      if (is_op(",")) target.unpack = true;
    } while (accept_op(","));
    if (parenthesised) expect_op(")");
    return target;
  }

  std::unique_ptr<Stmt> for_(int line) {
    auto stmt = make(Kind::kFor, line);
    stmt->target = names();
    if (!accept_name("in")) unexpected();
    stmt->expr = tuple(false);
    if (accept_name("if")) stmt->filter = expression();
    if (is_name("recursive")) fault("recursive loops are not supported");
    end_tag();
    ++loops_;
    stmt->body = body({"else", "endfor"});
    --loops_;
    if (take().text == "else")
      stmt->otherwise = block("endfor");
    else
      end_tag();
    return stmt;
  }

  std::unique_ptr<Stmt> set(int line) {
    auto stmt = make(Kind::kSet, line);
    stmt->target = names();
    if (!stmt->target.unpack && accept_op(".")) stmt->target.attribute = expect_any_name();
    if (accept_op("=")) {
      stmt->expr = tuple();
      end_tag();
      return stmt;
    }
    stmt->kind = Kind::kSetBlock;
    if (stmt->target.unpack) unexpected();
    if (accept_op("|")) stmt->expr = filter_chain(filter(nullptr));
    int loops = std::exchange(loops_, 0);  // its text is collected first: no way out of a loop leads through it
    stmt->body = block("endset");
    loops_ = loops;
    return stmt;
  }

  std::unique_ptr<Stmt> macro(int line) {
    auto stmt = make(Kind::kMacro, line);
    stmt->text = expect_any_name();
    stmt->target.names = {id_of(stmt->text)};
    expect_op("(");
    while (!accept_op(")")) {
      if (!stmt->parameters.empty()) expect_op(",");
      if (accept_op(")")) break;
      Parameter parameter;
      parameter.name = expect_any_name();
      parameter.name_id = id_of(parameter.name);
      if (accept_op("=")) parameter.fallback = expression();
      stmt->parameters.push_back(std::move(parameter));
    }
    int loops = std::exchange(loops_, 0);
    stmt->body = block("endmacro");
    loops_ = loops;
    return stmt;
  }

  std::unique_ptr<Stmt> with(int line) {
    auto stmt = make(Kind::kWith, line);
    while (!is(Token::Kind::kBlockEnd)) {
      if (!stmt->assignments.empty()) expect_op(",");
      Target target;
      target.names = {id_of(expect_any_name())};
      expect_op("=");
      stmt->assignments.emplace_back(std::move(target), expression());
    }
    stmt->body = block("endwith");
    return stmt;
  }

  std::unique_ptr<Stmt> filter_block(int line) {
    auto stmt = make(Kind::kFilter, line);
    stmt->expr = filter_chain(filter(nullptr));
    int loops = std::exchange(loops_, 0);
    stmt->body = block("endfilter");
    loops_ = loops;
    return stmt;
  }

  int nested_ = 0, loops_ = 0;
};

}  // namespace

ParsedTemplate parse(std::string_view source) { return Parser(tokens_of(source)).run(); }

}  // namespace jinja
