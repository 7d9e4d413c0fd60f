// Remote calls as plain JSON, so that everything can be curled.
//
//   one response       200 and one JSON object; an error is its HTTP status and {"code":5,"message":"…"}
//   response streams   NDJSON lines, or SSE events where `accept` names text/event-stream; an error after the first
//                      message is a last line {"error":{"code":…,"message":"…"}}
//   request streams    NDJSON lines; they are handed on once the body is complete
//
// "details" is there when the status has any.
//
// The text lies in a slab, and the message that is made of it takes its place there: so requests of this form are held
// back by the same budget as all others, and no call waits for a second slab while it has one.
//
// Long texts and long answers are offload tasks, one at a time each way: what comes behind one waits, so that the order
// stays.
#include "wire/rpc_json_call.h"

#include <utility>

#include "wire/accept.h"
#include "wire/answer_flow.h"
#include "wire/limits.h"
#include "wire/sse.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

using base::Code;

constexpr std::string_view kJson = "application/json", kNdjson = "application/x-ndjson";
constexpr int kTooLarge = 413;
constexpr size_t kBlankLine = 16;  // what reading one costs, in bytes of JSON

}  // namespace

std::string status_json(JsonForm& json, const base::Status& status) {
  if (!status.details.empty()) {
    auto whole = json.to_json("google.rpc.Status", status.details);
    if (whole.has_value()) return std::move(*whole);
  }
  std::string out = "{\"code\":" + std::to_string(int(status.code)) + ",\"message\":\"";
  append_json_text(out, status.text);
  return out += "\"}";
}

base::Status JsonCall::check_head() {
  std::string_view coding = metadata().find("content-encoding");
  auto known = coding_of(coding);
  if (!known) return base::failure(Code::kInvalidArgument, "content-encoding '" + std::string(coding) + "' is unknown");
  coding_ = *known;
  sse_ = accepts(metadata().find("accept"), kSseName);
  int64_t length = exchange_.request().content_length;
  if (length > int64_t(state_.options.max_message)) large_ = true;
  if (large_)
    return base::failure(Code::kResourceExhausted,
                         "the body is over the limit of " + std::to_string(state_.options.max_message) + " bytes");
  collector_.begin(
      state_.slabs,
      {length, coding_, {state_.options.max_message, state_.options.inflate_ratio}, pace_.owner(), &state_.inflating});
  return {};
}

void JsonCall::on_data(Exchange&, std::span<const std::byte> bytes) {
  owed_ += bytes.size();
  if (finished()) return give_back();
  state_.inflating.enter(state_.env.now());
  collected(collector_.put(bytes), bytes.size());
}

void JsonCall::on_end(Exchange&) {
  if (!finished()) collected(collector_.end(), 0);
}

void JsonCall::resume() {
  const bool waited = transcoder_.waiting();
  transcoder_.write_on();
  if (finished()) return;
  if (waited && transcoder_.all_taken()) return on_drain(exchange_);
  state_.inflating.enter(state_.env.now());
  if (collector_.state() == BodyCollector::State::kStalled)
    collected(collector_.retry(), 0);
  else
    feed();
}

void JsonCall::drop_request() {
  collector_.clear();
  transcoder_.drop_reading();
  text_ = {}, at_ = 0, whole_ = false;
  give_back();
}

// Without a slab nothing is given back, so that flow control holds the peer.
void JsonCall::collected(BodyCollector::State state, size_t came_now) {
  using State = BodyCollector::State;
  if (state != State::kStalled || collector_.paused()) pace_.fed();
  pace_.received(came_now, state == State::kOpen && !finished() ? RequestPace::Pending::kRestOfMessage
                                                                : RequestPace::Pending::kNothing);
  switch (state) {
    case State::kOpen: return give_back();
    case State::kStalled: return collector_.paused() ? turns_.resume_next_turn() : starved(collector_.wanted());
    case State::kTooBig:
      return too_large(coding_ == Coding::kIdentity ? reason::kBodyBytes : reason::kInflateBytes,
                       "the body is over the limit of " + std::to_string(state_.options.max_message) + " bytes");
    case State::kOverRatio: return too_large(reason::kInflateBytes, kOverRatioText);
    case State::kNoMemory:
      exchange_.record().reject = reason::kOverload;
      return break_off(base::overloaded("there is no memory for the message; try again later"));
    case State::kCorrupt:
      exchange_.record().reject = reason::kParse;
      return break_off(base::failure(Code::kInvalidArgument, "the body is not what its content-encoding says"));
    case State::kDone: break;
  }
  give_back();
  text_ = collector_.take();
  whole_ = true;
  feed();
}

void JsonCall::give_back() {
  if (owed_ > 0) exchange_.consume(std::exchange(owed_, 0));
}

void JsonCall::too_large(std::string_view why, std::string_view text) {
  large_ = true;
  exchange_.record().reject = why;
  break_off(base::failure(Code::kResourceExhausted, std::string(text)));
}

void JsonCall::feed() {
  base::Bytes text = text_;  // delivering may drop text_
  while (whole_ && !transcoder_.reading() && at_ < text.size()) {
    if (congested() || turns_.spent()) return;
    std::string_view json = next_text();
    const bool blank = trim(json).empty();
    turns_.spend(blank ? kBlankLine + json.size() : kWorkPerMessage);
    // An empty body is an empty message: curl -X POST needs no -d '{}'.
    if (!blank || one_request()) read_message(blank ? "{}" : json, text.slice(json));
  }
  if (!whole_ || transcoder_.reading() || at_ < text.size()) return;
  if (text.empty() && one_request()) read_message("{}", {});
  whole_ = false;
  text_ = {};
  half_close();
}

// All of it, or the next line.
std::string_view JsonCall::next_text() {
  std::string_view all = text_.view();
  std::string_view json = one_request() ? all : all.substr(at_, all.find('\n', at_) - at_);
  at_ = one_request() ? all.size() : at_ + json.size() + 1;
  return json;
}

void JsonCall::message_refused(const base::Status& why, std::string_view reject, Size size) {
  large_ = size == Size::kTooLarge;
  if (!reject.empty()) exchange_.record().reject = reject;
  break_off(why);
}

void JsonCall::add_initial(Response& response) const {
  for (size_t i = 0; i < initial_.size(); ++i) response.fields.add(initial_[i].name, initial_[i].value);
}

void JsonCall::open_stream() {
  if (exchange_.responding()) return;
  Response response = stream_head(sse_ ? kSseType : kNdjson);
  add_initial(response);
  exchange_.head(std::move(response));
}

void JsonCall::send(std::vector<base::Bytes> pieces) {
  if (!finished()) transcoder_.write(std::move(pieces), framing());
}

base::Status JsonCall::put_answer(std::string text) {
  if (route_.one_response()) {
    auto answer = base::adopt(exchange_.memory(), base::MemoryKind::kAnswers, std::move(text));
    if (!answer) {
      exchange_.record().reject = reason::kOverload;
      return base::overloaded("there is no memory for the answer; try again later");
    }
    answer_ = *std::move(answer);
    return {};
  }
  open_stream();
  exchange_.body(base::Bytes::adopt(std::move(text)));
  return {};
}

Response JsonCall::error_head(const base::Status& status) const {
  Response response;
  response.status = large_ ? kTooLarge : base::http_status(status);
  response.fields.add("content-type", kJson);
  add_initial(response);
  if (wants_retry_after(exchange_, response.status) && !response.fields.has("retry-after"))
    response.fields.add("retry-after", std::to_string(base::retry_after(status).count()));
  return response;
}

void JsonCall::write_error(const base::Status& status) {
  exchange_.respond(error_head(status), base::Bytes::adopt(status_json(*state_.json, status)));
}

void JsonCall::put_status(const base::Status& status) {
  if (exchange_.responding()) {
    if (!status.ok()) {
      std::string line = "{\"error\":" + status_json(*state_.json, status) + "}";
      exchange_.body(base::Bytes::adopt(framed(std::move(line), framing())));
    }
    return exchange_.end();
  }
  if (!status.ok()) return write_error(status);
  if (!route_.one_response()) {
    open_stream();
    return exchange_.end();
  }
  write_answer(std::move(answer_));
}

void JsonCall::write_answer(base::Bytes answer) {
  if (answer.empty()) return write_error(base::failure(Code::kInternal, "the method gave no answer"));
  Response response;
  response.fields.add("content-type", kJson);
  add_initial(response);
  exchange_.respond(std::move(response), std::move(answer));
}

std::unique_ptr<RpcCall> make_json_call(const RpcRoute& route, const RpcState& state, Exchange& exchange) {
  return std::make_unique<JsonCall>(route, state, exchange);
}

}  // namespace weir::wire
