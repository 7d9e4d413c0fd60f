// The syntax tree of a template: statements that hold expressions. The parser builds it, Evaluation reads it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "value.h"

namespace jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<const Expr>;
using Body = std::vector<std::unique_ptr<const Stmt>>;

// A filter gets the piped value and its arguments; a test answers yes or no.
using FilterFn = Value (*)(Evaluation&, const Value&, Arguments&);
using TestFn = bool (*)(const Value&, Arguments&);

enum class Op : uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow, kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

struct Expr {
  enum class Kind : uint8_t {
    kConst,    // value
    kName,     // name
    kList,     // args
    kTuple,    // args
    kDict,     // args: key, value, key, value, …
    kAttr,     // args[0].name
    kItem,     // args[0][args[1]]
    kSlice,    // args[0][args[1]:args[2]:args[3]]; null where left out
    kCall,     // args[0](args[1…], named)
    kFilter,   // args[0] | name(args[1…], named); args[0] is null in a filter block
    kTest,     // args[0] is name(args[1…], named)
    kNot,      // not args[0]
    kNegate,   // -args[0]
    kPlus,     // +args[0]
    kBinary,   // args[0] op args[1]
    kCompare,  // args[0] ops[0] args[1] ops[1] args[2] …
    kAnd,
    kOr,
    kConcat,  // args[0] ~ args[1] ~ …
    kIf,      // args[0] if args[1] else args[2]; args[2] null where left out
  };
  Kind kind;
  int line;
  uint16_t depth = 1;  // of the tree: bounded by the parser, so that walking it is
  uint32_t name_id = 0;
  Op op = Op::kAdd;
  std::string name;
  Value value;
  FilterFn filter = nullptr;  // null: not known; an error where it is reached
  TestFn test = nullptr;
  std::vector<ExprPtr> args;
  std::vector<std::pair<std::string, ExprPtr>> named;
  std::vector<Op> ops;
};

// The left side of an assignment: names, or an attribute of a namespace.
struct Target {
  std::vector<uint32_t> names;  // more than one: the value is taken apart
  bool unpack = false;
  std::string attribute;  // of names[0], a namespace
};

struct Parameter {
  uint32_t name_id;
  std::string name;
  ExprPtr fallback;  // may be null
};

struct Stmt {
  enum class Kind : uint8_t {
    kText,      // text
    kPrint,     // expr
    kIf,        // branches: (condition, or null for else; body)
    kFor,       // target in expr if filter: body; otherwise
    kSet,       // target = expr
    kSetBlock,  // target = body, through filters (expr: a chain whose innermost args[0] is null)
    kMacro,     // target.names[0] (parameters): body
    kWith,      // assignments: body
    kFilter,    // body through expr
    kGroup,     // body as it is ({% generation %})
    kBreak,
    kContinue,
  };
  Kind kind;
  int line;
  std::string text;
  ExprPtr expr, filter;
  Target target;
  std::vector<std::pair<ExprPtr, Body>> branches;
  std::vector<std::pair<Target, ExprPtr>> assignments;
  std::vector<Parameter> parameters;
  Body body, otherwise;
};

struct ParsedTemplate {
  Body body;
  std::vector<std::string> names;  // by name_id
};

}  // namespace jinja
