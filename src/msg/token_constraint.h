// The form that a completion must have, and how it is held to: a mask over the vocabulary for every token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weir::msg {

// A form as a request says it.
struct StructuredOutput {
  enum class Kind : uint8_t {
    kJsonObject,  // any JSON object
    kJsonSchema,  // a value of the schema `text`
    kRegex,
    kChoice,   // one of `choices`
    kGrammar,  // GBNF, as llama.cpp takes it
    // Calls as the model writes them: {"tools": [{"name", "parameters", "strict"}], "parallel": bool, "otherwise": the
    // schema of an answer without calls, "strict": of that}.
    kToolCalls,
  } kind = Kind::kJsonObject;
  std::string text;
  std::vector<std::string> choices;
  // Whether thoughts come before the form: of a model that thinks (AnswerFormat), where the prompt did not begin with
  // them, or did.
  enum class Thoughts : uint8_t { kNone, kMayCome, kBegun } thoughts = Thoughts::kNone;
  // kJsonSchema alone: a schema that says what cannot be held to is refused, or followed as far as it can be.
  enum class Schema : uint8_t { kStrict, kGuide } schema = Schema::kStrict;
  std::string_view param;  // which parameter said it; a literal
};

// One completion on its way. One thread at a time, but for prepare() beside it.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // Finds the next mask, which mask() then has at once. Any thread, while nobody calls accept().
  virtual void prepare() = 0;
  // Words of 32 ids: the bits of the tokens that may come next, ends of the text among them where it may end. Empty
  // where the form is so ambiguous that finding them takes too long. Until the next accept(). Any thread.
  virtual std::span<const uint32_t> mask() = 0;
  // The token has come; not for one that ends the text. False: it does not fit.
  virtual bool accept(uint32_t id) = 0;
  // Nothing may follow.
  virtual bool complete() const = 0;
  // The form, for a model that another server runs; null where it cannot be told. Any thread.
  virtual const StructuredOutput* form() const { return nullptr; }
};

inline bool allows(std::span<const uint32_t> mask, uint32_t id) {
  return id / 32 < mask.size() && (mask[id / 32] >> id % 32 & 1) != 0;
}

// A form for one model, ready for completions. Immutable for its users; any thread.
class TokenGrammar {
 public:
  virtual ~TokenGrammar() = default;
  // `end_ids` end a text where it may end. What it returns keeps this alive.
  virtual std::unique_ptr<TokenConstraint> start(std::span<const uint32_t> end_ids) const = 0;
};

}  // namespace weir::msg
