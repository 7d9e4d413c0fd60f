// Template: a Jinja template, parsed once and rendered with any number of variables. It is the subset of Jinja that the
// chat templates of language models use, set up as transformers sets it up: trim_blocks, lstrip_blocks, the loop
// controls, {% generation %}, raise_exception, strftime_now, and a tojson that writes what Python's json.dumps writes.
// Immutable; any thread.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "jinja/budget.h"
#include "jinja/error.h"

namespace jinja {

class Template {
 public:
  // Errors: kTemplate with the line, and with what is wrong or not supported. A source has at most 1 MiB.
  static Result<std::shared_ptr<const Template>> parse(std::string_view source);
  ~Template();

  // `variables` is an object. A template may be hostile: the steps, the text and the depth of one rendering are
  // limited. Budget::memory is asked for all that the template makes, and not for the variables; the text that is
  // returned is a part of it, by its capacity. Errors: kTemplate (raise_exception, undefined operations), kLimit,
  // kBudget, kCancelled, kMemory.
  Result<std::string> render(const nlohmann::json& variables, const Budget& budget = {}) const;
  // The same for JSON that keeps the order of its keys, which shows where a template writes JSON.
  Result<std::string> render(const nlohmann::ordered_json& variables, const Budget& budget = {}) const;

 private:
  struct Parts;
  template <class Json>
  Result<std::string> render_any(const Json& variables, const Budget& budget) const;
  explicit Template(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace jinja
