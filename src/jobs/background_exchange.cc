#include "jobs/background_exchange.h"

#include <utility>

#include "wire/service_guard.h"
#include "wire/text.h"

namespace weir::jobs {

using wire::BodyPlan;

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
    : around_(surroundings), done_(std::move(done)) {
  if (around_.memory) charge_ = {*around_.memory, base::MemoryKind::kAnswers};
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
  around_.env.cancel(timer_);
}

void BackgroundExchange::start() {
  begun_ = true;
  (void)base::charge(around_.memory, base::MemoryKind::kInput, content_);
  const wire::Plan plan = around_.intake.begin(*this);
  if (ended_ || broken_) return;
  if (plan.body == BodyPlan::kWhole && content_.size() <= plan.limit) return around_.intake.whole(*this);
  if (!headed_ && plan.body == BodyPlan::kWhole)
    return respond(
        413, "application/json",
        base::Bytes::constant(
            R"({"error":{"message":"the request is too large","type":"invalid_request_error","param":null,"code":null}})"));
  if (plan.body == BodyPlan::kStream) reset(wire::Reset::kInternal);  // nothing of that kind runs in the background
}

void BackgroundExchange::head(wire::Response response) {
  if (headed_ || ended_ || closed_) return;
  headed_ = true;
  outcome_.status = response.status;
  record_.status = response.status;
  outcome_.fields = show_fields(response.fields) + show_fields(extra_fields_);
}

void BackgroundExchange::body(base::Bytes piece) {
  if (!headed_ || ended_ || closed_ || piece.empty()) return;
  if (outcome_.body.size() + piece.size() > around_.max_answer) return too_long();
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
  ended_ = true;
  turn_later();
}

void BackgroundExchange::end(wire::Fields) {
  if (!headed_ || ended_ || closed_) return;
  ended_ = true;
  turn_later();
}

void BackgroundExchange::reset(wire::Reset) {
  if (ended_ || closed_) return;
  ended_ = broken_ = true;
  turn_later();
}

void BackgroundExchange::abandon() {
  if (ended_ || closed_) return;
  ended_ = broken_ = true;
  turn_later();
}

void BackgroundExchange::turn_later() {
  if (timer_ != base::TimerId::kNone || closed_) return;
  timer_ = around_.env.at(around_.env.now(), [this] { turn(); });
}

// Does what a codec does between two turns of the loop: the socket has taken everything.
void BackgroundExchange::turn() {
  timer_ = base::TimerId::kNone;
  fresh_ = 0;
  const bool drained = std::exchange(above_, false) || asked_drain_;
  asked_drain_ = false;
  if (!ended_) {
    if (drained) wire::notify_drain(*this);
    return;
  }
  close();
  if (broken_) outcome_ = {};
  Done done = std::move(done_);
  if (done) done(std::move(outcome_));  // may destroy this
}

void BackgroundExchange::close() {
  if (std::exchange(closed_, true)) return;
  auto listener = std::move(listener_);
  wire::notify_close(*this, listener.get(), ended_ && !broken_);
  if (!begun_) return;
  const wire::Identity* who = request_.identity;  // codecs charge the bytes of live requests
  if (who && who->limiter) who->limiter->charge_bytes(now(), record_.bytes_in + record_.bytes_out);
  around_.intake.closed(*this);
}

}  // namespace weir::jobs
