#include "dialects/openai/responses/socket_request.h"

#include <algorithm>
#include <utility>

#include "dialects/openai/responses/responses.h"
#include "dialects/openai/translation.h"
#include "marshal/json_cursor.h"
#include "wire/service_guard.h"
#include "wire/sse.h"

namespace weir::openai::responses {
namespace {

using wire::WebSocket;

constexpr size_t kLongestError = 64 << 10;
constexpr size_t kLongToScan = 16 << 10;  // bytes of a message: a longer one is not read again on the shard
constexpr std::string_view kBroken =
    R"({"error":{"message":"the answer was broken off","type":"server_error","param":null,"code":null}})";

// The response that a message wants to go on behind; empty: none. Reads all of it.
std::string previous_of(std::string_view message) {
  std::string previous;
  marshal::JsonCursor json(message);
  (void)json.object([&](std::string_view name) {
    if (name != "previous_response_id" || json.peek() != marshal::JsonCursor::Kind::kString) return json.skip();
    return json.string(previous);
  });
  return previous;
}

}  // namespace

std::string error_event(int status, std::string_view body, std::string_view retry_after, uint64_t events) {
  OrderedJson answer = OrderedJson::parse(body, nullptr, false);
  if (!answer.is_object() || !answer.contains("error") || !answer["error"].is_object())
    answer = OrderedJson::parse(kBroken);
  OrderedJson error = std::move(answer["error"]);
  OrderedJson event{{"type", "error"}, {"status", status}, {"error", error}, {"sequence_number", events}};
  for (const char* name : {"code", "message", "param"}) event[name] = error.value(name, OrderedJson());
  if (!retry_after.empty()) event["error"]["headers"] = {{"retry-after", retry_after}};
  return event.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

Continuations* continuations_of(const wire::Exchange& exchange) {
  const auto* request = dynamic_cast<const SocketRequest*>(&exchange);
  return request ? &request->continuations() : nullptr;
}

SocketRequest::SocketRequest(OpenAiState& state, Connection& connection, const wire::Fields& fields,
                             base::Bytes message)
    : InnerExchange(state.bus.env(), *state.intake, connection.exchange().memory()), connection_(connection) {
  const wire::Request& handshake = connection.exchange().request();
  request_.version = handshake.version;
  request_.method = "POST";
  request_.authority = handshake.authority;
  request_.target = handshake.path();
  request_.fields = fields;
  request_.peer = handshake.peer;
  request_.content_length = int64_t(message.size());
  content_ = std::move(message);
  record_.bytes_in = content_.size();
}

void SocketRequest::take_head(const wire::Response& response) {
  streams_ = response.fields.find("content-type") == wire::kSseType;
  for (const wire::Fields* fields : {&response.fields, static_cast<const wire::Fields*>(&extra_fields_)})
    if (fields->has("retry-after")) retry_after_ = fields->find("retry-after");
}

void SocketRequest::take_body(base::Bytes piece) {
  record_.bytes_out += piece.size();
  if (streams_) return send_events(piece.view());
  if (answer_.size() + piece.size() <= kLongestError) answer_ += piece.view();
}

// Events, which may come in parts; a line that is of none is a sign of life, and a WebSocket has its own.
void SocketRequest::send_events(std::string_view events) {
  while (!events.empty()) {
    const std::string_view part = events.substr(0, events.find('\n'));
    events.remove_prefix(part.size());
    send_line(part, events.empty() ? LineEnd::kNotYet : LineEnd::kHere);
    if (!events.empty()) events.remove_prefix(1);
  }
}

void SocketRequest::send_line(std::string_view part, LineEnd end) {
  constexpr std::string_view kData = "data: ";
  if (!in_data_) {
    const size_t name = std::min(part.size(), kData.size() - std::min(kData.size(), line_.size()));
    line_ += part.substr(0, name);
    part.remove_prefix(name);
    in_data_ = line_ == kData;
    if (in_data_) ++events_, line_.clear();
  }
  const bool ended = end == LineEnd::kHere;
  if (in_data_) {
    if (ended || !part.empty()) connection_.send_event(part, ended ? WebSocket::More::kNo : WebSocket::More::kYes);
    in_data_ = !ended;
    return;
  }
  line_ += part;
  if (!ended) return;
  failed_ = failed_ || line_ == "event: response.failed";
  line_.clear();
}

// The connection waits for this, so it is told also where there is no memory for the error.
void SocketRequest::answer_over(Answered how) {
  wire::guarded(connection_.exchange(), [&] {
    if (!streams_ || how == Answered::kBroken) fail(how);
    if (failed_) forget_previous();
  });
  connection_.on_request_over();
}

// The guide: a turn that fails takes what it was to go on behind with it. What that was is not looked for in a long
// message: all that the connection keeps goes.
void SocketRequest::forget_previous() {
  if (continuations().ids().empty()) return;
  if (content_.size() > kLongToScan) return continuations().forget_all();
  continuations().forget(previous_of(content_.view()));
}

void SocketRequest::fail(Answered how) {
  failed_ = true;
  if (std::exchange(in_data_, false)) connection_.send_event({});  // the message that was broken off ends
  const bool whole = !streams_ && how == Answered::kWhole;
  connection_.send_event(whole ? error_event(record_.status, answer_, retry_after_, events_)
                               : error_event(500, kBroken, {}, events_));
}

}  // namespace weir::openai::responses
