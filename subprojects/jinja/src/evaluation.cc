// Statements; expressions are in expression.cc.
#include "evaluation.h"

#include <algorithm>
#include <utility>

#include "builtins.h"

namespace jinja {

struct Evaluation::Deeper {
  explicit Deeper(Evaluation& evaluation) : evaluation(evaluation) {
    if (++evaluation.depth_ > kMaxDepth) {
      --evaluation.depth_;  // no destructor runs after a throw from here
      exceed_limit("the template is nested too deeply");
    }
  }
  ~Deeper() { --evaluation.depth_; }
  Evaluation& evaluation;
};

void Evaluation::Scope::set(uint32_t name, Value value) {
  for (auto& [id, old] : names)
    if (id == name) return void(old = std::move(value));
  names.emplace_back(name, std::move(value));
}

Evaluation::Evaluation(const ParsedTemplate& what, const Value& variables, const Budget& budget)
    : template_(what),
      variables_(variables),
      loop_(uint32_t(std::find(what.names.begin(), what.names.end(), "loop") - what.names.begin())),
      budget_(budget),
      next_check_(std::min(budget.steps, kCheckEvery)),
      most_bytes_(std::min<uint64_t>(budget.bytes, kMaxBytes)) {}

Evaluation::~Evaluation() {
  for (Value& space : kept_) space.space().fields.clear();
}

void Evaluation::keep(const Value& space) {
  spend(kKeepingSteps);
  kept_.push_back(space);
}

// Every few thousand steps, and at the last one.
void Evaluation::check_limits() {
  if (steps_ > kMaxSteps) exceed_limit("the template takes too many steps");
  if (steps_ > budget_.steps) throw Exception{{Error::Kind::kBudget, "the template takes longer"}};
  if (budget_.stopped()) throw Exception{{Error::Kind::kCancelled, "cancelled"}};
  hold((steps_ - std::exchange(held_steps_, steps_)) * kHeldPerStep);
  next_check_ = std::min({steps_ + kCheckEvery, kMaxSteps, budget_.steps}) + 1;
}

void Evaluation::ask_for_memory() {
  const uint64_t more = std::max(held_ - granted_, kMemoryPiece);
  if (!budget_.memory->take(more)) throw Exception{{Error::Kind::kMemory, "there is no memory for the template"}};
  granted_ += more;
}

// Both texts are there while the old one is copied.
void Evaluation::grow(std::string& out, size_t more) {
  const size_t before = out.capacity(), after = std::max(out.size() + more, 2 * before);
  hold(after);
  out.reserve(after);
  if (budget_.memory) held_ -= before;
}

void Evaluation::too_long() const {
  if (bytes_ > kMaxBytes) exceed_limit("the template makes too much text");
  throw Exception{{Error::Kind::kBudget, "the template makes more text"}};
}

std::string Evaluation::run() {
  std::string out;
  Scope scope{nullptr, {}};
  run(template_.body, scope, out);
  return out;
}

Evaluation::Flow Evaluation::run(const Body& body, Scope& scope, std::string& out) {
  for (const auto& stmt : body) {
    spend(1);
    Flow flow;
    try {
      flow = run(*stmt, scope, out);
    } catch (Exception& exception) {
      if (!std::exchange(exception.has_place, true))
        exception.error.message.insert(0, "line " + std::to_string(stmt->line) + ": ");
      throw;
    }
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

void Evaluation::write(std::string& out, const Value& value) {
  if (value.undefined()) return;
  if (value.text())
    append(out, value.str());
  else
    append(out, text_of(value));
}

Value Evaluation::captured(const Body& body, const Scope& scope) {
  std::string out;
  Scope inner{&scope, {}};
  run(body, inner, out);
  count_bytes(out.size());
  return Value(std::move(out));
}

Evaluation::Flow Evaluation::run(const Stmt& stmt, Scope& scope, std::string& out) {
  Deeper deeper(*this);
  switch (stmt.kind) {
    case Stmt::Kind::kText: append(out, stmt.text); return Flow::kNext;
    case Stmt::Kind::kPrint: write(out, eval(*stmt.expr, scope)); return Flow::kNext;
    case Stmt::Kind::kIf:
      for (const auto& [condition, body] : stmt.branches)
        if (!condition || eval(*condition, scope).truth()) return run(body, scope, out);
      return Flow::kNext;
    case Stmt::Kind::kFor: return run_for(stmt, scope, out);
    case Stmt::Kind::kSet: assign(stmt.target, eval(*stmt.expr, scope), scope); return Flow::kNext;
    case Stmt::Kind::kSetBlock: {
      Value value = captured(stmt.body, scope);
      assign(stmt.target, stmt.expr ? filter(*stmt.expr, scope, &value) : value, scope);
      return Flow::kNext;
    }
    case Stmt::Kind::kMacro: define_macro(stmt, scope); return Flow::kNext;
    case Stmt::Kind::kWith: {
      Scope inner{&scope, {}};
      for (const auto& [target, expr] : stmt.assignments) assign(target, eval(*expr, scope), inner);
      return run(stmt.body, inner, out);
    }
    case Stmt::Kind::kFilter: {
      Value value = captured(stmt.body, scope);
      write(out, filter(*stmt.expr, scope, &value));
      return Flow::kNext;
    }
    case Stmt::Kind::kGroup: return run(stmt.body, scope, out);
    case Stmt::Kind::kBreak: return Flow::kBreak;
    case Stmt::Kind::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
}

List Evaluation::filtered(const Stmt& stmt, List items, Scope& scope) {
  if (!stmt.filter) return items;
  List kept;
  for (Value& item : items) {
    Scope inner{&scope, {}};
    assign(stmt.target, item, inner);
    if (eval(*stmt.filter, inner).truth()) kept.push_back(std::move(item));
  }
  return kept;
}

namespace {

Value loop_of(const List& items, size_t i) {
  auto number = [](size_t n) { return Value(int64_t(n)); };
  Dict fields{{"index", number(i + 1)},
              {"index0", number(i)},
              {"revindex", number(items.size() - i)},
              {"revindex0", number(items.size() - i - 1)},
              {"first", i == 0},
              {"last", i + 1 == items.size()},
              {"length", number(items.size())},
              {"depth", number(1)},
              {"depth0", number(0)}};
  if (i > 0) fields.emplace_back("previtem", items[i - 1]);
  if (i + 1 < items.size()) fields.emplace_back("nextitem", items[i + 1]);
  return Value::loop(std::move(fields));
}

}  // namespace

Evaluation::Flow Evaluation::run_for(const Stmt& stmt, Scope& scope, std::string& out) {
  List items = filtered(stmt, elements(*this, eval(*stmt.expr, scope)), scope);
  for (size_t i = 0; i < items.size(); ++i) {
    spend(1);
    Scope inner{&scope, {}};
    if (loop_ < template_.names.size()) inner.set(loop_, loop_of(items, i));
    assign(stmt.target, items[i], inner);
    if (run(stmt.body, inner, out) == Flow::kBreak) break;
  }
  if (!items.empty() || stmt.otherwise.empty()) return Flow::kNext;
  Scope inner{&scope, {}};
  return run(stmt.otherwise, inner, out);
}

void Evaluation::assign(const Target& target, Value value, Scope& scope) {
  spend(scope.names.size() / 16);
  if (!target.attribute.empty()) {
    const Scope* at = &scope;
    const Value* space = nullptr;
    for (; at && !space; at = at->outer)
      for (const auto& [id, held] : at->names)
        if (id == target.names[0]) space = &held;
    if (!space || !space->name_space()) fail("only attributes of namespaces can be set");
    if (value.callable()) fail("a namespace cannot hold a " + std::string(value.kind()));
    if (value.holds_space()) keep(*space);
    for (auto& [key, held] : space->space().fields)
      if (key == target.attribute) return void(held = std::move(value));
    space->space().fields.emplace_back(target.attribute, std::move(value));
    return;
  }
  if (!target.unpack) return scope.set(target.names[0], std::move(value));
  List parts = elements(*this, value);
  if (parts.size() != target.names.size())
    fail("there are " + std::to_string(parts.size()) + " values for " + std::to_string(target.names.size()) + " names");
  for (size_t i = 0; i < parts.size(); ++i) scope.set(target.names[i], std::move(parts[i]));
}

void Evaluation::define_macro(const Stmt& stmt, Scope& scope) {
  // Borrows the scope: a macro is held by nothing that lives longer, as lists and namespaces take no callables.
  const Scope* defined = &scope;
  scope.set(stmt.target.names[0], Value::callable([&stmt, defined](Evaluation& evaluation, Arguments& arguments) {
              return evaluation.run_macro(stmt, *defined, arguments);
            }));
}

Value Evaluation::run_macro(const Stmt& stmt, const Scope& defined, Arguments& arguments) {
  Deeper deeper(*this);
  if (arguments.values.size() > stmt.parameters.size()) fail("too many arguments for the macro '" + stmt.text + "'");
  for (const auto& given : arguments.named)
    if (std::none_of(stmt.parameters.begin(), stmt.parameters.end(),
                     [&](const auto& p) { return p.name == given.first; }))
      fail("the macro '" + stmt.text + "' has no parameter '" + given.first + "'");
  Scope scope{&defined, {}};
  for (size_t i = 0; i < stmt.parameters.size(); ++i) {
    const Parameter& parameter = stmt.parameters[i];
    Value value;
    if (arguments.has(i, parameter.name))
      value = arguments.get(i, parameter.name);
    else if (parameter.fallback)
      value = eval(*parameter.fallback, scope);
    scope.set(parameter.name_id, std::move(value));
  }
  std::string out;
  run(stmt.body, scope, out);
  count_bytes(out.size());
  return Value(std::move(out));
}

Value Evaluation::call(const Value& what, Arguments& arguments) {
  if (!what.callable()) fail("a value of type " + std::string(what.kind()) + " cannot be called");
  spend(1);
  return what.call()(*this, arguments);
}

}  // namespace jinja
