// Services for tests of HTTP/2: a body that streams, text that shows what was lost.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/h2_client.h"

namespace weir::test {

// `n` letters in which no stretch looks like another.
inline std::string text_of(size_t n) {
  std::string text(n, '\0');
  for (size_t i = 0; i < n; ++i) text[i] = char('a' + i * 2654435761u % 26);
  return text;
}

// Serves every request as kStream, with a RecordingReader that gives every byte back.
struct Streamed {
  std::map<wire::Exchange*, support::Heard> heard;
  std::vector<wire::Exchange*> order;
  class Giving final : public wire::ExchangeListener {
   public:
    explicit Giving(support::Heard& heard) : listener_(heard) {}
    void on_data(wire::Exchange& x, std::span<const std::byte> piece) override {
      listener_.on_data(x, piece);
      x.consume(piece.size());
    }
    void on_end(wire::Exchange& x) override { listener_.on_end(x); }
    void on_drain(wire::Exchange& x) override { listener_.on_drain(x); }
    void on_close(wire::Exchange& x, bool complete) override { listener_.on_close(x, complete); }

   private:
    support::RecordingReader listener_;
  };
  void serve(Server& s) {
    s.intake.on_begin = [this](wire::Exchange& x) {
      support::Heard& h = heard[&x];
      h = {};
      order.push_back(&x);
      x.attach(std::make_unique<Giving>(h));
      return wire::Plan{wire::BodyPlan::kStream, 0};
    };
  }
};

}  // namespace weir::test
