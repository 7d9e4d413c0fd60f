// WebSockets of responses, on the models of responses_bench.h.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "responses_bench.h"
#include "support/counted_slabs.h"

namespace weir::openai {

constexpr int kText = 0x81, kBinary = 0x82, kCloses = 0x88, kPing = 0x89, kPong = 0x8a;

// A client's frame; the mask is of zeros.
inline std::string client_frame(int first, std::string_view payload, int mask_bit = 0x80) {
  std::string out{char(first)};
  if (payload.size() < 126) {
    out += char(mask_bit | int(payload.size()));
  } else {
    out += char(mask_bit | 126);
    out += char(payload.size() >> 8), out += char(payload.size());
  }
  return out.append(mask_bit ? 4 : 0, '\0').append(payload);
}

struct ServerFrame {
  int first;
  std::string payload;
};
inline std::vector<ServerFrame> server_frames(std::string_view bytes) {
  std::vector<ServerFrame> out;
  while (bytes.size() >= 2) {
    size_t size = uint8_t(bytes[1]), head = 2;
    if (size == 126) size = size_t(uint8_t(bytes[2])) << 8 | uint8_t(bytes[3]), head = 4;
    if (size == 127)
      for (size = 0, head = 2; head < 10; ++head) size = size << 8 | uint8_t(bytes[head]);
    out.push_back({uint8_t(bytes[0]), std::string(bytes.substr(head, size))});
    bytes.remove_prefix(std::min(bytes.size(), head + size));
  }
  return out;
}

class ResponseSockets : public Responses {
 protected:
  ResponseSockets() { options.slabs = &slabs; }

  Opened connect(Headers more = {}) {
    Headers headers{{"upgrade", "websocket"},
                    {"connection", "Upgrade"},
                    {"sec-websocket-version", "13"},
                    {"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="}};
    headers.insert(headers.end(), more.begin(), more.end());
    return open("GET", "/v1/responses", {}, headers);
  }
  void write(const Opened& x, std::string_view bytes) {
    if (x->listener()) x->listener()->on_data(*x, std::as_bytes(std::span(bytes)));
    settle();
  }
  void send(const Opened& x, std::string_view text) { write(x, client_frame(kText, text)); }
  void create(const Opened& x, Json event = Json::object()) {
    event.emplace("type", "response.create");
    event.emplace("model", "m");
    event.emplace("input", "hi");
    send(x, event.dump());
  }
  // Everything is delivered, also what follows from it.
  void settle() {
    for (int i = 0; i < 3; ++i) turn(), env.advance(std::chrono::microseconds(2));
    turn();
  }
  // The events that have come since the last call.
  std::vector<Json> told(const Opened& x) {
    std::vector<Json> out;
    for (const ServerFrame& frame : server_frames(x->sent))
      if (frame.first == kText) out.push_back(Json::parse(frame.payload));
    x->sent.clear();
    return out;
  }
  // Its answer: "ab". The response as the last event has it.
  Json answered(const Opened& x) {
    scripted().emit("ab");
    scripted().end();
    settle();
    const std::vector<Json> events = told(x);
    EXPECT_FALSE(events.empty());
    return events.empty() ? Json() : events.back()["response"];
  }
  // The one event that has come: "404 model_not_found model".
  std::string failure(const Opened& x) {
    const std::vector<Json> events = told(x);
    if (events.size() != 1 || events[0]["type"] != "error") return Json(events).dump();
    const Json& event = events[0];
    for (const char* name : {"code", "message", "param"}) EXPECT_EQ(event[name], event["error"][name]) << name;
    const auto word = [&](const char* name) {
      return event["error"][name].is_string() ? event["error"][name].get<std::string>() : std::string("-");
    };
    return std::to_string(event["status"].get<int>()) + " " + word("code") + " " + word("param");
  }
  // The code of the close frame, 0: none has come.
  static int close_code(const Opened& x) {
    for (const ServerFrame& frame : server_frames(x->sent))
      if (frame.first == kCloses) return uint8_t(frame.payload[0]) << 8 | uint8_t(frame.payload[1]);
    return 0;
  }
  static size_t count(const Opened& x, int first) {
    const auto frames = server_frames(x->sent);
    return size_t(std::count_if(frames.begin(), frames.end(), [&](const auto& f) { return f.first == first; }));
  }

  support::CountedSlabs slabs{64 << 20};
};

}  // namespace weir::openai
