// ChatTemplate: the subset of Jinja that the chat templates of popular models use. Immutable; any thread.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/status.h"
#include "text/budget.h"

namespace weir::text {

class ChatTemplate {
 public:
  // Errors: INVALID_ARGUMENT with line and what is wrong or not supported.
  static base::Result<std::shared_ptr<const ChatTemplate>> parse(std::string_view source);
  ~ChatTemplate();

  // `variables` is an object. Bounded in steps and output: a template comes with a model's files and may be hostile.
  // Errors: INVALID_ARGUMENT (raise_exception, undefined operations), RESOURCE_EXHAUSTED (too long); ABORTED for what
  // takes more than `budget` allows, CANCELLED.
  base::Result<std::string> render(const nlohmann::json& variables, const Budget& budget = {}) const;
  // The same for JSON that knows the order of its keys, which shows where a template writes JSON (`tojson` of a tool).
  base::Result<std::string> render_ordered(const nlohmann::ordered_json& variables, const Budget& budget = {}) const;

 private:
  struct Parts;
  template <class Json>
  base::Result<std::string> render_any(const Json& variables, const Budget& budget) const;
  explicit ChatTemplate(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace weir::text
