// Answers in Anthropic's form: a message of content blocks, or the events that make one.
//
//   event: message_start        {"type":"message_start","message":{…,"content":[],"usage":{"input_tokens":…}}}
//   event: content_block_start  {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
//   event: content_block_delta  {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}
//   event: content_block_stop   {"type":"content_block_stop","index":0}
//   event: message_delta        {"type":"message_delta","delta":{"stop_reason":…},"usage":{"output_tokens":…}}
//   event: message_stop         {"type":"message_stop"}
#include <utility>

#include "dialects/openai/anthropic/anthropic.h"
#include "marshal/json_tensor.h"
#include "wire/answer_flow.h"
#include "wire/sse.h"

namespace weir::openai::anthropic {
namespace {

using wire::Exchange;

class MessageAnswer final : public Answer {
 public:
  using Answer::Answer;

  void on_drain(Exchange&) override {
    for (Choice& choice : choices_) choice.call.repay();
  }

 private:
  void grew(Choice& choice) override {
    if (!request_.stream) {
      if (!charge(choice)) fail(wire::no_room_for_answer());
      return;
    }
    std::string events;
    say(choice, events);
    send(std::move(events));
  }
  void ended(Choice&) override {}

  void over() override {
    Choice& choice = choices_.front();
    if (request_.stream) return end_stream(choice);
    if (!charge_written()) return failed(wire::no_room_for_answer());
    std::string out = message_head() + "\"content\":[{\"type\":\"text\",\"text\":";
    marshal::write_string(out, choice.delta.text);
    out += "}],";
    write_reason(out, choice.end);
    out += ',';
    write_counts(out, choice);
    finish_written(std::move(out += '}'));
  }

  void failed(const base::Status& status) override {
    if (!exchange_.responding()) return respond(exchange_, refuse(status));
    exchange_.record().set_outcome(status);
    std::string event;
    add(event, "error", anthropic_error_json(base::http_status(status), status.text));
    send(std::move(event));
    exchange_.end();
  }

  // The new text of a stream, with what has to come before it.
  void say(Choice& choice, std::string& events) {
    open(choice, events);
    if (!std::exchange(choice.begun, true))
      add(events, "content_block_start",
          R"({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})");
    if (choice.delta.text.empty()) return;
    std::string data = R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":)";
    marshal::write_string(data, choice.delta.text);
    add(events, "content_block_delta", data += "}}");
    choice.delta.clear();
  }

  void end_stream(Choice& choice) {
    std::string events;
    say(choice, events);
    add(events, "content_block_stop", R"({"type":"content_block_stop","index":0})");
    std::string data = R"({"type":"message_delta","delta":{)";
    write_reason(data, choice.end);
    data += "},";
    write_counts(data, choice);
    add(events, "message_delta", data += '}');
    add(events, "message_stop", R"({"type":"message_stop"})");
    send(std::move(events));
    exchange_.end();
  }

  void open(const Choice& choice, std::string& events) {
    if (exchange_.responding()) return;
    exchange_.head(wire::stream_head());
    std::string data = R"({"type":"message_start","message":)" + message_head();
    data += R"("content":[],"stop_reason":null,"stop_sequence":null,)";
    write_counts(data, choice);
    add(events, "message_start", data += "}}");
  }

  std::string message_head() {
    std::string out = "{\"id\":\"msg_" + new_id() + R"(","type":"message","role":"assistant","model":)";
    marshal::write_string(out, model_);
    return out += ',';
  }

  static void write_reason(std::string& out, const End& end) {
    const bool stop_string = end.stop_reason.starts_with('"');
    out += "\"stop_reason\":";
    if (end.why == End::Why::kLength)
      out += "\"max_tokens\"";
    else
      out += stop_string ? "\"stop_sequence\"" : "\"end_turn\"";
    out += ",\"stop_sequence\":";
    out += stop_string ? std::string_view(end.stop_reason) : "null";
  }

  static void write_counts(std::string& out, const Choice& choice) {
    out += "\"usage\":{\"input_tokens\":" + std::to_string(choice.prompt_tokens - choice.cached_tokens);
    out += ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":" + std::to_string(choice.cached_tokens);
    out += ",\"output_tokens\":" + std::to_string(choice.completion_tokens) + '}';
  }

  static void add(std::string& events, std::string_view name, std::string_view data) {
    wire::append_sse(events, data, name);
  }
  void send(std::string events) { exchange_.body(base::Bytes::adopt(std::move(events))); }
};

}  // namespace

std::unique_ptr<Answer> message_answer(OpenAiState& state, Exchange& exchange, Kind kind, Request request) {
  return std::make_unique<MessageAnswer>(state, exchange, kind, std::move(request));
}

}  // namespace weir::openai::anthropic
