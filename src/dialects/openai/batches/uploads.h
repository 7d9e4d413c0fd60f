// OpenAI's uploads over HTTP: a file that comes in parts, in any order and beside each other.
//
//   POST /uploads {"bytes","filename","mime_type","purpose","expires_after"}
//   POST /uploads/{id}/parts (multipart: data)
//   POST /uploads/{id}/complete {"part_ids":[…],"md5"}     POST /uploads/{id}/cancel
//
// Reference: platform.openai.com/docs/api-reference/uploads. What is kept is upload_record.h.
#pragma once

#include "dialects/openai/batches/upload_record.h"
#include "dialects/openai/endpoints.h"

namespace weir::openai::batches {

void create_upload(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void cancel_upload(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void complete_upload(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
// Its body is streamed.
void add_upload_part(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

struct Completion {
  std::vector<uint32_t> order;  // of the upload's parts: places in UploadRecord::parts
  std::string md5;              // hex, lower case; empty: not told
};
// upload_join.cc: joins the parts of a pending upload of the caller's to a file, and answers.
void join_parts(OpenAiState& state, wire::Exchange& exchange, const UploadRecord& upload, Completion&& completion);

}  // namespace weir::openai::batches
