#include "jobs/background_exchange.h"

#include <algorithm>
#include <utility>

#include "wire/service_guard.h"
#include "wire/text.h"

namespace weir::jobs {

void append_fields(const std::string& text, wire::Fields& fields) {
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const size_t colon = line.find(": ");
    if (colon != line.npos && colon > 0) fields.add(line.substr(0, colon), line.substr(colon + 2));
  }
}

std::string show_fields(const wire::Fields& fields) {
  std::string out;
  for (size_t i = 0; i < fields.size(); ++i) ((out += fields[i].name) += ": ").append(fields[i].value) += '\n';
  return out;
}

BackgroundExchange::BackgroundExchange(Surroundings surroundings, const wire::PeerInfo& peer, Job& job, Done done)
    : InnerExchange(surroundings.env, surroundings.intake, surroundings.memory),
      max_answer_(surroundings.max_answer),
      done_(std::move(done)) {
  if (surroundings.memory) charge_ = {*surroundings.memory, base::MemoryKind::kAnswers};
  request_.version = wire::Version::kHttp2;
  request_.method = "POST";
  request_.target = job.target;
  request_.peer = &peer;
  append_fields(job.fields, request_.fields);
  request_.content_length = int64_t(job.body.size());
  content_ = base::Bytes::adopt(std::exchange(job.body, {}));
  record_.bytes_in = content_.size();
}

BackgroundExchange::~BackgroundExchange() {
  done_ = nullptr;
  close();
}

void BackgroundExchange::take_head(const wire::Response& response) {
  outcome_.status = response.status;
  outcome_.fields = show_fields(response.fields) + show_fields(extra_fields_);
}

void BackgroundExchange::take_body(base::Bytes piece) {
  if (outcome_.body.size() + piece.size() > max_answer_) return too_long();
  if (!charge_.grow(piece.size())) {  // for now: it is run again
    too_long();
    outcome_.status = 503;
    return;
  }
  outcome_.body += piece.view();
  record_.bytes_out += piece.size();
  fresh_ += piece.size();
  if (fresh_ >= kLowWater) above_ = true;
  turn_later();
}

// The client of a batch reads it in the line of its request.
void BackgroundExchange::too_long() {
  outcome_ = {
      500, "content-type: application/json\n",
      R"({"error":{"message":"the answer is longer than jobs.max_result, or there is no memory for it","type":"server_error","param":null,"code":null}})"};
  record_.code = base::Code::kResourceExhausted;
  cut_short();
}

// Does what a codec does between two turns of the loop: the socket has taken everything.
void BackgroundExchange::on_turn() {
  fresh_ = 0;
  const bool drained = std::exchange(above_, false) || asked_drain_;
  asked_drain_ = false;
  if (drained) wire::notify_drain(*this);
}

void BackgroundExchange::answer_over(Answered how) {
  if (how == Answered::kBroken) outcome_ = {};
  Done done = std::move(done_);
  if (done) done(std::move(outcome_));  // may destroy this
}

void BackgroundExchange::charge_usage() {
  const wire::Identity* who = request_.identity;
  if (who && who->limiter) who->limiter->charge_bytes(now(), record_.bytes_in + record_.bytes_out);
}

}  // namespace weir::jobs
