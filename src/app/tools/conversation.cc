#include "app/tools/conversation.h"

#include <fmt/format.h>

#include <utility>

#include "app/tools/sse_reader.h"

namespace weir::app {
namespace {

using nlohmann::json;

// A member that is a string, else an empty one.
std::string string_in(const json& object, const char* key) {
  if (!object.is_object()) return {};
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string error_text(const json& event) {
  const json& error = event["error"];
  std::string message = error.is_object() ? string_in(error, "message") : std::string();
  return printable(message.empty() ? error.dump(-1, ' ', false, json::error_handler_t::replace) : message);
}

}  // namespace

// Reads the events of one answer.
class Conversation::Reading {
 public:
  Reading(Conversation& home, const OnText& on_text) : home_(home), on_text_(on_text) {}

  void take(std::string_view data) {
    if (data == "[DONE]") return void(done = true);
    const json event = json::parse(data, nullptr, false);
    if (!event.is_object()) {
      if (wrong.empty()) wrong = "the server streams what is no JSON";
      return;
    }
    if (event.contains("error")) wrong = error_text(event);
    auto choices = event.find("choices");
    if (choices == event.end() || !choices->is_array() || choices->empty()) return;
    const json& choice = choices->front();
    if (!choice.is_object() || !choice.contains("delta")) return;
    const json& delta = choice["delta"];
    hand_on(Part::kReasoning, string_in(delta, "reasoning_content"));
    const std::string text = string_in(delta, "content");
    answer += text;
    hand_on(Part::kAnswer, text);
  }

  std::string answer, wrong;
  bool done = false;
  SseReader events;

 private:
  void hand_on(Part part, const std::string& text) {
    if (text.empty()) return;
    home_.last_at_ = Clock::now();
    if (home_.tokens_++ == 0) home_.first_at_ = home_.last_at_;
    on_text_(part, text);
  }

  Conversation& home_;
  const OnText& on_text_;
};

Conversation::Conversation(const Remote& remote, Options options) : remote_(remote), options_(std::move(options)) {
  reset();
}

void Conversation::reset() {
  messages_ = json::array();
  if (!options_.system.empty()) messages_.push_back({{"role", "system"}, {"content", options_.system}});
}

void Conversation::use_system(std::string text) {
  options_.system = std::move(text);
  reset();
}

base::Status Conversation::stream(const net::Interrupt* interrupt, Reading& reading) {
  auto client = connect_to(remote_, interrupt);
  if (!client) return client.error();
  auto reply = client->stream(
      "POST", "/v1/chat/completions", {{"content-type", "application/json"}, {"accept", "text/event-stream"}},
      request_body(), [&](std::string_view piece) {
        const bool bounded = reading.events.feed(piece, [&](std::string_view data) { reading.take(data); });
        if (!bounded) reading.wrong = "the server sends a line without an end";
        return bounded && !reading.done && reading.wrong.empty();
      });
  if (!reply) return base::failure(reply.error().code, complaint(reply));
  if (auto wrong = complaint(reply); !wrong.empty()) return base::failure(base::code_from_http(reply->status), wrong);
  if (reading.wrong.empty() && !reading.done) reading.wrong = "the answer ended early, or is no chat completion";
  return reading.wrong.empty() ? base::Status{} : base::failure(base::Code::kUnavailable, reading.wrong);
}

base::Status Conversation::send(const std::string& text, const net::Interrupt* interrupt, const OnText& on_text) {
  messages_.push_back({{"role", "user"}, {"content", text}});
  tokens_ = 0;
  began_ = Clock::now();
  Reading reading(*this, on_text);
  base::Status status = stream(interrupt, reading);
  if (status.ok() || status.code == base::Code::kCancelled)
    messages_.push_back({{"role", "assistant"}, {"content", reading.answer}});
  else
    messages_.erase(messages_.size() - 1);
  return status;
}

std::string Conversation::request_body() const {
  json out{{"model", options_.model}, {"messages", messages_}, {"stream", true}, {"max_tokens", options_.max_tokens}};
  if (options_.temperature >= 0) out["temperature"] = options_.temperature;
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string Conversation::pace() const {
  const std::chrono::duration<double> first = first_at_ - began_, rest = last_at_ - first_at_;
  std::string out = fmt::format("{} pieces", tokens_);
  if (tokens_ > 1 && rest.count() > 0) out += fmt::format(", {:.1f}/s", double(tokens_ - 1) / rest.count());
  return tokens_ > 0 ? out + fmt::format(", the first after {:.0f} ms", first.count() * 1e3) : out;
}

base::Result<std::vector<std::string>> chat_models(const Remote& remote) {
  auto reply = ask(remote, "GET", "/v1/models");
  if (auto wrong = complaint(reply); !wrong.empty())
    return base::failure(base::Code::kUnavailable, "GET /v1/models: " + wrong);
  const json body = json::parse(reply->body, nullptr, false);
  std::vector<std::string> names;
  if (!body.is_object() || !body.contains("data") || !body["data"].is_array())
    return base::failure(base::Code::kUnavailable, "GET /v1/models: the answer is no list of models");
  for (const auto& row : body["data"])
    if (auto name = string_in(row, "id"); !name.empty()) names.push_back(std::move(name));
  return names;
}

}  // namespace weir::app
