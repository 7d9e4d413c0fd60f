// Why a Call is not answered: answers over HTTP that are errors, in whatever form a server writes them; and where no
// origin is asked. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace weir::forward {

struct Target;

base::Code code_of_status(int status);

// An answer that its protocol does not allow: INTERNAL.
base::Status broken_rule(std::string text);
// The same of a tensor whose bytes marshal/ has refused: it takes tensors for inputs, and this one is an output.
base::Status broken_output(std::string_view text);

// The error of an answer with that status; `body` may be OpenAI's {"error": {"message": …}}, {"message": …}, FastAPI's
// {"detail": …}, the Open Inference Protocol's {"error": …}, or anything. `retry_after`: the answer's field, or empty.
base::Status error_of(int status, std::string_view body, std::string_view retry_after);

// Marks what a complete answer of an error says that is INTERNAL, as HTTP 500 is. A connection that broke is none, nor
// an answer that cannot be used. Other codes are left as they are.
base::Status failed_answer(base::Status status);
// Made by failed_answer().
bool is_failed_answer(const base::Status& status);

// The request was refused before anything was done for it, so that another origin may take it.
bool is_refusal(int status);

// No origin of the model is there, or all have as many calls as they may.
base::Status no_origin(const Target& target, const std::string& model);
// It has come through wire::kMostHops servers like this one: origins that forward to each other would hand it on for
// ever. UNIMPLEMENTED: no other origin is asked for it, nor is it taken apart. The next of those servers that has the
// model itself runs it, be it this one or one that it has come through (sched::runs_here_then()).
base::Status goes_in_circles(const std::string& model);

}  // namespace weir::forward
