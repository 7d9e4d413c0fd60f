// A line of a batch's output or error file:
//
//   {"id":…,"custom_id":…,"response":{"status_code","request_id","body"},"error":null}
//   {"id":…,"custom_id":…,"response":null,"error":{"code","message"}}       it was not run, or there was no room
#pragma once

#include <string>

#include "jobs/journal.h"

namespace weir::openai::batches {

// Why a job has no outcome.
enum class Missing : uint8_t { kExpired, kCancelled };

// With its line's end.
std::string output_line(const jobs::FinishedJob& job, Missing missing);

// An answer as one line of JSON; one that is no JSON as a string.
void write_on_one_line(std::string& out, const std::string& body);

}  // namespace weir::openai::batches
