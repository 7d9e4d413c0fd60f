#include "dialects/oip/event_stream.h"

#include <utility>

#include "base/overload.h"
#include "base/units.h"
#include "wire/router.h"
#include "wire/sse.h"
#include "wire/text.h"

namespace weir::oip {
namespace {

constexpr std::string_view kLastId = "end";

bool is_get(const wire::Exchange& exchange) { return exchange.request().method != "POST"; }

std::string_view last_event_id(const wire::Exchange& exchange) {
  return is_get(exchange) ? exchange.request().fields.find("last-event-id") : std::string_view();
}

}  // namespace

EventStream::EventStream(wire::Exchange& exchange, base::Env& env)
    : exchange_(exchange), quiet_(env, exchange, [this] { ping(); }), numbered_(is_get(exchange)) {
  if (auto last = base::parse_count(std::string(last_event_id(exchange)))) skipped_ = *last;
}

void EventStream::open() {
  if (!exchange_.responding()) exchange_.head(wire::stream_head());
}

void EventStream::put(std::string text) {
  quiet_.sent();
  exchange_.body(base::Bytes::adopt(std::move(text)));
}

void EventStream::ping() {
  open();
  std::string comment;
  wire::append_sse_comment(comment);
  put(std::move(comment));
}

void EventStream::send(std::string_view json) {
  std::string event;
  wire::append_sse(event, json);
  send_text(std::move(event));
}

void EventStream::send_text(std::string text) {
  if (++sent_ <= skipped_) return;
  open();
  if (numbered_) text.insert(0, "id: " + std::to_string(sent_) + '\n');
  put(std::move(text));
}

void EventStream::end(wire::Fields trailers) {
  quiet_.stop();
  open();
  if (numbered_) {
    std::string event;
    wire::append_sse(event, "{}", "end", kLastId);
    exchange_.body(base::Bytes::adopt(std::move(event)));
  }
  exchange_.end(std::move(trailers));
}

void EventStream::fail(const base::Status& status) {
  exchange_.record().set_outcome(status);
  const std::string error = wire::error_json(status.text);
  if (exchange_.responding()) return send(error), end();
  quiet_.stop();
  wire::Response response = wire::stream_head();
  response.status = base::http_status(status);
  if (wire::wants_retry_after(exchange_, response.status)) response.fields.add("retry-after", "1");
  std::string event;
  wire::append_sse(event, error);
  exchange_.respond(std::move(response), base::Bytes::adopt(std::move(event)));
}

base::Bytes request_of(const wire::Exchange& exchange) {
  return is_get(exchange) ? base::Bytes::adopt(exchange.request().query_value("request")) : exchange.content();
}

bool is_over(wire::Exchange& exchange, Repeatable repeatable) {
  const std::string_view last = last_event_id(exchange);
  if (last.empty() || (last != kLastId && repeatable == Repeatable::kYes)) return false;
  wire::Response response;
  response.status = 204;
  exchange.respond(std::move(response), {});
  return true;
}

}  // namespace weir::oip
