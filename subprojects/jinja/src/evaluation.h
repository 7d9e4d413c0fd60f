// Evaluation: one rendering of a template. One thread. It counts everything that a template does, in steps and in bytes
// of text made, and ends a template that does too much: templates are not trusted.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ast.h"
#include "jinja/budget.h"

namespace jinja {

class Evaluation {
 public:
  static constexpr uint64_t kMaxSteps = 5'000'000;
  static constexpr uint64_t kMaxBytes = 256u << 20;   // of all strings made
  static constexpr int kMaxDepth = 400;               // expressions, blocks and macros inside each other
  static constexpr uint64_t kPerStep = 16;            // units of weight that one step pays for
  static constexpr uint64_t kKeepingSteps = 16;       // what keep() costs
  static constexpr uint64_t kCheckEvery = 4096;       // steps between two checks of Budget::cancelled
  static constexpr uint64_t kHeldPerStep = 48;        // bytes of lists, dicts and short texts that a step may leave
  static constexpr uint64_t kMemoryPiece = 64 << 10;  // bytes that Budget::memory is asked for together

  // All borrowed.
  Evaluation(const ParsedTemplate& what, const Value& variables, const Budget& budget = kAnything);
  ~Evaluation();
  Evaluation(const Evaluation&) = delete;
  std::string run();

  // These throw an Exception where a limit is passed.
  void spend(uint64_t steps) {
    if ((steps_ += steps) >= next_check_) check_limits();
  }
  void spend_bytes(uint64_t bytes) {
    count_bytes(bytes);
    hold(bytes);
  }
  // Appends to a text that grows, and pays for it and for the memory that it grows to: so that nothing is left to pay
  // when it becomes a Value.
  void append(std::string& out, std::string_view more) {
    count_bytes(more.size());
    make_room(out, more.size());
    out += more;
  }
  // Pays for the memory of so many bytes more in a text.
  void make_room(std::string& out, size_t more) {
    if (more > out.capacity() - out.size()) grow(out, more);
  }
  // Pays for bytes of text whose memory is paid for.
  void count_bytes(uint64_t bytes) {
    if ((bytes_ += bytes) > most_bytes_) too_long();
  }
  // Pays for reading all of a value; for comparing two; for finding `word` bytes in `text` bytes.
  void pay_for(const Value& value) { spend(value.weight() / kPerStep); }
  void pay_for(const Value& a, const Value& b) { spend(std::min(a.weight(), b.weight()) / kPerStep); }
  // Pays for one pass over the characters of a text.
  void pay_for_scan(const Value& text) { pay_for_search(text.str().size(), 0); }
  void pay_for_search(size_t text, size_t word) { spend((text / 64) * (1 + word / 64)); }
  // str() of any value, paid for.
  std::string text_of(const Value& value) {
    pay_for(value);
    return value.to_text();
  }
  Value text(std::string made) {
    spend_bytes(made.size());
    return Value(std::move(made));
  }
  // A list that a filter or method made, of no more than it has paid for.
  Value list(List made) {
    spend(made.size());
    return Value::list(std::move(made));
  }

  // A namespace that is to hold another one, perhaps itself, stays until the end and gives up its fields then: so that
  // all are freed, and one after the other.
  void keep(const Value& space);
  Value attribute(const Value& object, std::string_view name);  // a.b
  Value item(const Value& object, const Value& key);            // a[b]
  bool tested(TestFn test, const Value& value, Arguments& arguments);
  Value apply_filter(FilterFn filter, std::string_view name, const Value& input, Arguments& arguments);
  Value call(const Value& what, Arguments& arguments);

 private:
  static inline const Budget kAnything{};
  void check_limits();
  [[noreturn]] void too_long() const;
  // Memory that the rendering takes from now on.
  void hold(uint64_t bytes) {
    if (budget_.memory && (held_ += bytes) > granted_) ask_for_memory();
  }
  void ask_for_memory();
  void grow(std::string& out, size_t more);

  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  // The names of a block, innermost first by `outer`.
  struct Scope {
    const Scope* outer;
    std::vector<std::pair<uint32_t, Value>> names;
    void set(uint32_t name, Value value);
  };
  struct Deeper;

  Flow run(const Body& body, Scope& scope, std::string& out);
  Flow run(const Stmt& stmt, Scope& scope, std::string& out);
  Flow run_for(const Stmt& stmt, Scope& scope, std::string& out);
  List filtered(const Stmt& stmt, List items, Scope& scope);
  Value captured(const Body& body, const Scope& scope);
  void define_macro(const Stmt& stmt, Scope& scope);
  Value run_macro(const Stmt& stmt, const Scope& defined, Arguments& arguments);
  void assign(const Target& target, Value value, Scope& scope);
  void write(std::string& out, const Value& value);

  Value eval(const Expr& expr, const Scope& scope);
  Value eval_kind(const Expr& expr, const Scope& scope);
  Value name(const Expr& expr, const Scope& scope);
  Value filter(const Expr& expr, const Scope& scope, const Value* input);
  Value test(const Expr& expr, const Scope& scope);
  Value compare_all(const Expr& expr, const Scope& scope);
  Value concat(const Expr& expr, const Scope& scope);
  Value dict(const Expr& expr, const Scope& scope);
  Value slice(const Expr& expr, const Scope& scope);
  Value binary(Op op, const Value& left, const Value& right);
  Value repeat(const Value& value, int64_t times);  // of a str or list
  Arguments arguments(const Expr& expr, const Scope& scope);

  const ParsedTemplate& template_;
  const Value& variables_;
  const uint32_t loop_;  // the name `loop`; names.size() where the template does not say it
  const Budget& budget_;
  uint64_t steps_ = 0, bytes_ = 0;
  // Bytes of memory. What has been let go is counted still, but for the smaller forms of texts that grew.
  uint64_t held_ = 0, granted_ = 0;
  uint64_t held_steps_ = 0;  // steps whose memory is in held_
  uint64_t next_check_;      // the step at which check_limits() is due
  const uint64_t most_bytes_;
  int depth_ = 0;
  std::vector<Value> kept_;  // namespaces
};

}  // namespace jinja
