// OpenAI's files and batches over HTTP.
//
//   POST /files (multipart: purpose=batch, file)   GET /files[/{id}[/content]]   DELETE /files/{id}
//   POST /batches {"input_file_id","endpoint","completion_window","metadata","output_expires_after"}
//   GET /batches[/{id}]
//   POST /batches/{id}/cancel
//
// Everything is kept by the journal (src/jobs/), and is its owner's alone: who asks with another one's id finds
// nothing. Without a journal each route answers 501 with the reason. A line of a batch is put to the routes of this
// dialect by jobs::ShardJobs; what goes on meanwhile is duty.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dialects/openai/endpoints.h"
#include "jobs/journal.h"

namespace weir::marshal {
class FieldReader;
}

namespace weir::jobs {
class ShardJobs;
}

namespace weir::openai::batches {

// upload.cc: the body is streamed (wire::BodyPlan::kStream); all else is short.
void upload(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// files.cc
void list_files(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void show_file(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void file_content(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void delete_file(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// batches.cc
void create_batch(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void list_batches(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void show_batch(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void cancel_batch(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// The journal; null, and the request is answered, where there is none.
jobs::ShardJobs* journal_of(OpenAiState& state, wire::Exchange& exchange);
// The error for an id that names nothing of the caller's. `what`: "file", "batch".
ApiError no_such(std::string_view what, std::string_view id);
// An error of the journal: what is not found there is what the path names.
ApiError journal_error(const base::Status& why);
// Reads `limit` of a list, 1 to `most`; nothing, and the request is answered, where it is something else.
std::optional<size_t> list_limit(wire::Exchange& exchange, size_t most, size_t usual);
// Reads `order` of a list: desc, the usual one, or asc; nothing, and the request is answered, where it is something
// else.
std::optional<jobs::ListOrder> list_order(wire::Exchange& exchange);
// `{"object":"list","data":[…],…}` of the objects' JSON, with the ids of the first and the last.
std::string list_json(const std::vector<std::pair<std::string, std::string>>& objects, size_t limit);

// Reads {"anchor": "created_at", "seconds": …}; `name` is refused where it is something else.
bool read_ttl(marshal::FieldReader& fields, std::string_view name, uint64_t& out);
// The answer is the file's content.
void send_file(jobs::ShardJobs& journal, wire::Exchange& exchange, const jobs::File& file, std::string_view type);

// A job gives way to all live requests, unless it names a priority.
void give_way(OpenAiState& state, jobs::Job& job);

}  // namespace weir::openai::batches
