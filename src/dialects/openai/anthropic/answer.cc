// Answers in Anthropic's form: a message of content blocks, or the events that make one.
//
//   event: message_start        {"type":"message_start","message":{…,"content":[],"usage":{"input_tokens":…}}}
//   event: content_block_start  {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
//   event: content_block_delta  {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}
//   event: content_block_stop   {"type":"content_block_stop","index":0}; before that of thoughts a signature_delta:
//                               clients send thoughts back only if they are signed, if only with ""
//   …                           the next block: thoughts (thinking_delta) come before the text, calls of tools behind
//                               it: {"type":"tool_use","id","name","input":{}}, with input_json_delta
//   event: ping                 {"type":"ping"}: anywhere, where there was nothing else to say for a while
//   event: message_delta        {"type":"message_delta","delta":{"stop_reason":…},"usage":{"output_tokens":…}}
//   event: message_stop         {"type":"message_stop"}
#include <algorithm>
#include <utility>

#include "dialects/openai/anthropic/anthropic.h"
#include "dialects/openai/event_answer.h"
#include "dialects/openai/pieces_text.h"
#include "marshal/json_tensor.h"
#include "wire/answer_flow.h"
#include "wire/sse.h"

namespace weir::openai::anthropic {
namespace {

using wire::Exchange;

// The end of a message, behind the counts of its usage: what is the same for all of them.
constexpr std::string_view kMessageEnd =
    R"(,"cache_creation":null,"inference_geo":null,"service_tier":"standard","speed":null},"diagnostics":null})";
constexpr std::string_view kNoText = R"({"type":"text","text":""})";

enum class Block : uint8_t { kNone, kThinking, kText, kCall };

class MessageAnswer final : public EventAnswer {
 public:
  using EventAnswer::EventAnswer;

 private:
  void grew(Choice& choice) override {
    if (!request_.stream) {
      if (!charge(choice)) fail(wire::no_room_for_answer());
      return;
    }
    std::string events;
    append_new(choice, events);
    stream_.send(std::move(events));
  }
  void ended(Choice&) override {}

  void over() override {
    Choice& choice = choices_.front();
    if (request_.stream) return end_stream(choice);
    choice.drop_cut_call();
    finish_text(std::make_unique<PiecesText>(1, [this](size_t, SplicedText& out) { write_message(out); }));
  }

  void break_off(const ApiError& error) override {
    std::string event;
    add(event, "error", anthropic_error_json(exchange_, base::http_status(error.status), error.status.text));
    stream_.end(std::move(event));
  }

  void write_message(SplicedText& out) {
    const Choice& choice = choices_.front();
    out.own += message_head() + "\"content\":[";
    write_blocks(out, choice.delta);
    out.own += "],";
    write_reason(out.own, choice);
    out.own += ',';
    write_counts(out.own, choice);
    out.own += kMessageEnd;
  }
  // An answer has a block of text at least.
  static void write_blocks(SplicedText& text, const ChoiceDelta& said) {
    std::string& out = text.own;
    const auto begin = [&](std::string_view block) {
      if (out.back() != '[') out += ',';
      out += block;
    };
    if (!said.reasoning.empty()) {
      begin(R"({"type":"thinking","thinking":)");
      text.splice_string(said.reasoning);
      out += ",\"signature\":\"\"}";
    }
    if (!said.text.empty() || said.calls.empty()) {
      begin(R"({"type":"text","text":)");
      text.splice_string(said.text);
      out += '}';  // no citations: where there are none, the service leaves them out, and the AI SDK takes no null
    }
    for (const CallDelta& call : said.calls) {
      begin(R"({"type":"tool_use",)");
      write_call(out, call);
      out += ",\"input\":";
      text.splice(has_object(call) ? std::string_view(call.arguments) : "{}");
      out += '}';
    }
  }
  static void write_call(std::string& out, const CallDelta& call) {
    out += "\"id\":";
    marshal::write_string(out, call.id);
    out += ",\"name\":";
    marshal::write_string(out, call.name);
    out += R"(,"caller":{"type":"direct"})";
  }

  // Adds to a stream what is new, with what has to come before it.
  void append_new(Choice& choice, std::string& events) {
    open(choice, events);
    ChoiceDelta& delta = choice.delta;
    if (!delta.reasoning.empty()) {
      if (block_ != Block::kThinking)
        begin_block(Block::kThinking, R"({"type":"thinking","thinking":"","signature":""})", events);
      add_delta(R"({"type":"thinking_delta","thinking":)", delta.reasoning, events);
    }
    if (!delta.text.empty()) {
      if (block_ != Block::kText) begin_block(Block::kText, kNoText, events);
      add_delta(R"({"type":"text_delta","text":)", delta.text, events);
    }
    for (const CallDelta& call : delta.calls) {
      if (!call.name.empty()) {
        std::string block = R"({"type":"tool_use",)";
        write_call(block, call);
        begin_block(Block::kCall, block += ",\"input\":{}}", events);
      }
      if (!call.arguments.empty()) add_delta(R"({"type":"input_json_delta","partial_json":)", call.arguments, events);
    }
    delta.clear();
  }

  void begin_block(Block block, std::string_view content, std::string& events) {
    end_block(events);
    block_ = block;
    answered_ = answered_ || block != Block::kThinking;
    std::string data = R"({"type":"content_block_start","index":)" + std::to_string(index_);
    (data += ",\"content_block\":") += content;
    add(events, "content_block_start", data += '}');
  }
  void end_block(std::string& events) {
    if (block_ == Block::kNone) return;
    if (block_ == Block::kThinking) add_delta(R"({"type":"signature_delta","signature":)", "", events);
    add(events, "content_block_stop", R"({"type":"content_block_stop","index":)" + std::to_string(index_++) + '}');
    block_ = Block::kNone;
  }
  void add_delta(std::string_view begin, std::string_view text, std::string& events) const {
    std::string data = R"({"type":"content_block_delta","index":)" + std::to_string(index_);
    (data += ",\"delta\":") += begin;
    marshal::write_string(data, text);
    add(events, "content_block_delta", data += "}}");
  }

  void end_stream(Choice& choice) {
    std::string events;
    append_new(choice, events);
    if (!answered_) begin_block(Block::kText, kNoText, events);
    end_block(events);
    std::string data = R"({"type":"message_delta","delta":{)";
    write_reason(data, choice);
    data += "},";
    write_counts(data, choice);
    add(events, "message_delta", data += "}}");
    add(events, "message_stop", R"({"type":"message_stop"})");
    stream_.end(std::move(events));
  }

  void sign_life(std::string& events) override {
    if (choices_.empty()) return;
    open(choices_.front(), events);
    add(events, "ping", R"({"type":"ping"})");
  }

  void open(const Choice& choice, std::string& events) {
    if (exchange_.responding()) return;
    stream_.open();
    std::string data = R"({"type":"message_start","message":)" + message_head();
    data += R"("content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"container":null,)";
    write_counts(data, choice);
    data += kMessageEnd;
    add(events, "message_start", data += '}');
  }

  std::string message_head() {
    std::string out = "{\"id\":\"msg_" + new_id() + R"(","type":"message","role":"assistant","model":)";
    marshal::write_string(out, model_);
    return out += ',';
  }

  // Fewer tokens than were asked for are what the context had left.
  bool filled_context(const Choice& choice) const {
    return choice.completion_tokens < request_.params.max_tokens.value_or(0);
  }

  void write_reason(std::string& out, const Choice& choice) const {
    const End& end = choice.end;
    const bool stop_string = end.stop_reason.starts_with('"');
    out += "\"stop_reason\":";
    if (end.why == End::Why::kLength)
      out += filled_context(choice) ? "\"model_context_window_exceeded\"" : "\"max_tokens\"";
    else if (end.why == End::Why::kFiltered)
      out += "\"refusal\"";
    else if (end.calls)
      out += "\"tool_use\"";
    else
      out += stop_string ? "\"stop_sequence\"" : "\"end_turn\"";
    out += ",\"stop_sequence\":";
    out += stop_string && !end.calls ? std::string_view(end.stop_reason) : "null";
    out += R"(,"stop_details":null,"container":null)";
  }

  // Without the end of the object: that of a message has more in it (kMessageEnd).
  static void write_counts(std::string& out, const Choice& choice) {
    const uint32_t cached = std::min(choice.cached_tokens, choice.prompt_tokens);
    out += "\"usage\":{\"input_tokens\":" + std::to_string(choice.prompt_tokens - cached);
    out += ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":" + std::to_string(cached);
    out += ",\"output_tokens\":" + std::to_string(choice.completion_tokens);
    out += ",\"output_tokens_details\":{\"thinking_tokens\":" + std::to_string(choice.thought_tokens);
    out += "},\"server_tool_use\":null";
  }

  static void add(std::string& events, std::string_view name, std::string_view data) {
    wire::append_sse(events, data, name);
  }
  std::string call_id() override { return "toolu_" + random_id(24); }

  Block block_ = Block::kNone;  // of a stream: which is open, and the number of it or the next
  size_t index_ = 0;
  bool answered_ = false;  // of a stream: a block that is no thoughts has begun
};

}  // namespace

std::unique_ptr<Answer> message_answer(OpenAiState& state, Exchange& exchange, Kind kind, Request request) {
  return std::make_unique<MessageAnswer>(state, exchange, kind, std::move(request));
}

}  // namespace weir::openai::anthropic
