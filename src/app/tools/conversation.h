// Conversation: the messages of one chat, and the requests that make its answers (OpenAI's chat/completions, streamed).
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/remote.h"

namespace weir::app {

class Conversation {
 public:
  struct Options {
    std::string model, system;
    uint32_t max_tokens = 512;
    double temperature = -1;  // below 0: the server's default
  };
  // `remote` outlives this.
  Conversation(const Remote& remote, Options options);

  // Forgets what was said; the system message stays.
  void reset();
  void use_model(std::string model) { options_.model = std::move(model); }
  const std::string& model() const { return options_.model; }
  // Also forgets what was said.
  void use_system(std::string text);

  enum class Part : uint8_t { kAnswer, kReasoning };
  using OnText = std::function<void(Part part, const std::string& text)>;
  // Says `text` and hands on the answer as it comes. Raising `interrupt` ends it: CANCELLED; what has come of it is
  // kept. After another error it is as if `text` had not been said. Errors: Client::stream()'s, and the server's words.
  base::Status send(const std::string& text, const net::Interrupt* interrupt, const OnText& on_text);

  // "12 tokens, 34.5/s, the first after 80 ms": of the last answer.
  std::string pace() const;

 private:
  class Reading;
  std::string request_body() const;
  base::Status stream(const net::Interrupt* interrupt, Reading& reading);

  using Clock = std::chrono::steady_clock;
  const Remote& remote_;
  Options options_;
  nlohmann::json messages_;
  uint32_t tokens_ = 0;
  Clock::time_point began_{}, first_at_{}, last_at_{};
};

// The models of GET /v1/models, in the server's order.
base::Result<std::vector<std::string>> chat_models(const Remote& remote);

}  // namespace weir::app
