#include "dialects/openai/batches/output_line.h"

#include <algorithm>
#include <string_view>

#include "jobs/background_exchange.h"
#include "marshal/json_cursor.h"
#include "marshal/json_tensor.h"

namespace weir::openai::batches {
namespace {

void write_error(std::string& out, std::string_view code, std::string_view message) {
  ((out += R"("response":null,"error":{"code":")") += code) += "\",\"message\":";
  marshal::write_string(out, message);
  out += '}';
}

void write_response(std::string& out, const jobs::Outcome& outcome) {
  wire::Fields fields;
  jobs::append_fields(outcome.fields, fields);
  out += "\"response\":{\"status_code\":" + std::to_string(outcome.status) + ",\"request_id\":";
  marshal::write_string(out, fields.find("x-request-id"));
  out += ",\"body\":";
  write_on_one_line(out, outcome.body);
  out += "},\"error\":null";
}

}  // namespace

// Line ends between the values of JSON become blanks.
void write_on_one_line(std::string& out, const std::string& body) {
  marshal::JsonCursor json(body);
  if (!json.skip() || !json.finish()) return marshal::write_string(out, body);
  const size_t from = out.size();
  out += body;
  std::replace_if(
      out.begin() + ptrdiff_t(from), out.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
}

std::string output_line(const jobs::FinishedJob& job, Missing missing) {
  const std::string digits = job.id.batch.substr(job.id.batch.find('_') + 1);
  std::string out = "{\"id\":\"batch_req_" + digits + "_" + std::to_string(job.id.index) + "\",\"custom_id\":";
  marshal::write_string(out, job.label);
  out += ',';
  if (job.outcome && job.outcome->status != 0 && !job.outcome->body.empty())
    write_response(out, *job.outcome);
  else if (job.outcome && job.outcome->status != 0)
    write_error(out, "insufficient_storage", "there was no room for the answer (jobs.disk, jobs.tenant_disk)");
  else if (missing == Missing::kExpired)
    write_error(out, "batch_expired", "This request could not be executed before the completion window expired.");
  else
    write_error(out, "batch_cancelled", "This request was not executed because the batch was cancelled.");
  return out + "}\n";
}

}  // namespace weir::openai::batches
