// Anthropic's Message Batches over HTTP, on the batches of OpenAI's API (batches/duty.h).
//
//   POST /v1/messages/batches {"requests":[{"custom_id","params"}]}     GET /v1/messages/batches[/{id}[/results]]
//   POST /v1/messages/batches/{id}/cancel                               DELETE /v1/messages/batches/{id}
//
// Reference: docs.anthropic.com/en/api/creating-message-batches. The requests go to the journal as they come, as a
// file that no list has (request_lines.h); what is wrong with their `params` is said in their results. All that is kept
// is its owner's alone.
#pragma once

#include <string>

#include "dialects/openai/batches/duty.h"
#include "dialects/openai/batches/shown.h"
#include "dialects/openai/endpoints.h"

namespace weir::openai::anthropic {

inline constexpr std::string_view kMessagesKind = "anthropic";

// message_upload.cc: its body is streamed.
void create_batch(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void list_batches(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void show_batch(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void cancel_batch(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void delete_batch(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void batch_results(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// A message_batch of the API.
std::string message_batch_json(const batches::Shown& batch);
// For the duty that looks after them.
batches::BatchForm message_batch_form();
// A line of its results.
std::string result_line(const jobs::FinishedJob& job, batches::Missing missing);

}  // namespace weir::openai::anthropic
