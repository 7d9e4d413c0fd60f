#include "engines/forward/openai/model_question.h"

#include <utility>

#include "engines/forward/openai/api_path.h"
#include "engines/forward/refusal.h"

namespace weir::forward {

using base::Code;
using base::failure;
using base::Result;
using base::Status;

void ModelQuestion::tell_error(Status status) {
  status.text = "origin " + conn_.origin().name() + ": " + status.text;
  tell(Result<ListedModel>(std::move(status)));
}

void ModelQuestion::tell_unavailable(std::string text) { tell_error(failure(Code::kUnavailable, std::move(text))); }

void ModelQuestion::ask(base::Duration health, base::Duration list, Then then) {
  list_ = list;
  then_ = std::move(then);
  if (has_base_path(conn_.origin().url())) return ask_models();  // what else is there is another service's
  get_.ask("/health", health, [this](Result<Get::Answer> answer) { heard_health(std::move(answer)); });
}

// A server without /health is asked for its models alone.
void ModelQuestion::heard_health(Result<Get::Answer> answer) {
  if (!answer) return tell_error(answer.error());
  const bool healthy = answer->status == 200 || (options_.has_rows() && answer->status / 100 == 2);
  if (!healthy && !is_no_path(answer->status))
    return tell_unavailable("/health answered with HTTP status " + std::to_string(answer->status));
  ask_models();
}

void ModelQuestion::ask_models() {
  get_.ask(api_path(conn_.origin().url(), "/models"), list_,
           [this](Result<Get::Answer> models) { heard_models(std::move(models)); });
}

// One that lists none may have it; servers of completions list theirs.
void ModelQuestion::heard_models(Result<Get::Answer> answer) {
  if (!answer) return tell_error(answer.error());
  if (is_no_path(answer->status) && options_.api != OpenaiApi::kCompletions)
    return tell(ListedModel{.found = true, .owner = {}, .others = {}});
  if (answer->status != 200)
    return tell_unavailable(api_path(conn_.origin().url(), "/models") + ": " +
                            error_of(answer->status, answer->body, {}).text);
  auto listed = read_models(answer->body, options_.model);
  if (!listed) return tell_error(listed.error());
  // Azure lists the models that its deployments are of, which have names of their own.
  listed->found = listed->found || is_azure(conn_.origin().url());
  if (!listed->found)
    return tell_unavailable("it has no model '" + options_.model + "'" +
                            (listed->others.empty() ? "" : "; it has " + listed->others));
  tell(std::move(listed));
}

}  // namespace weir::forward
