// HTTP/2: what a service throws while its request's body streams.
#include <new>
#include <stdexcept>

#include "support/h2_client.h"
#include "support/h2_service.h"

namespace weir::test {
namespace {

using wire::Exchange;

// Throws where it is told to; gives its bytes back otherwise.
class Thrower final : public wire::ExchangeListener {
 public:
  enum class At : uint8_t { kData, kEnd, kDrain, kClose };
  explicit Thrower(At at) : at_(at) {}
  void on_data(Exchange& x, std::span<const std::byte> piece) override {
    x.consume(piece.size());
    meet(At::kData);
  }
  void on_end(Exchange& x) override {
    meet(At::kEnd);
    x.respond(200, "a/b", base::Bytes::adopt(text_of(3 << 20)));  // enough for a drain
  }
  void on_drain(Exchange&) override { meet(At::kDrain); }
  void on_close(Exchange&, bool) override { meet(At::kClose); }

 private:
  void meet(At at) const {
    if (at == at_) throw std::bad_alloc();
  }
  At at_;
};

TEST(H2, WhatAReaderThrowsEndsItsStreamAndNoOther) {
  for (auto at : {Thrower::At::kData, Thrower::At::kEnd, Thrower::At::kDrain, Thrower::At::kClose}) {
    Server s;
    Streamed others;
    others.serve(s);
    Client c;
    int32_t healthy = c.request(kPost, text_of(10), true);
    c.talk(s);
    s.intake.on_begin = [at](Exchange& x) {
      x.attach(std::make_unique<Thrower>(at));
      return wire::Plan{wire::BodyPlan::kStream, 1 << 20};
    };
    int32_t bad = c.request(kPost, text_of(100));
    c.talk(s);
    EXPECT_EQ(s.intake.closes, 1u) << int(at);
    if (at < Thrower::At::kDrain) {
      EXPECT_EQ(c[bad].status(), "503") << int(at);
    }
    EXPECT_TRUE(c[bad].ended || c[bad].reset) << int(at);
    c.more(healthy, text_of(10), true);
    c.talk(s);
    EXPECT_EQ(others.heard[others.order[0]].data.size(), 20u);
    EXPECT_EQ(others.heard[others.order[0]].ends, 1);
    others.order[0]->respond(200, "a/b", base::Bytes::copy_of("fine"));
    c.talk(s);
    EXPECT_EQ(c[healthy].body, "fine");
    EXPECT_TRUE(c.goaways.empty());
    EXPECT_FALSE(s.codec->finished());
  }
}

TEST(H2, WhatIsThrownAtTheEndOfARequestEndsNoOther) {
  int told = 0;
  Server s;
  Client c;
  s.intake.on_closed = [&](Exchange&) {
    if (++told == 2) throw std::bad_alloc();
  };
  for (int i = 0; i < 4; ++i) c.request(kGet);
  c.talk(s);
  c.talk(s);
  EXPECT_EQ(told, 4) << "each once";
  int32_t next = c.request(kGet);
  c.talk(s);
  EXPECT_EQ(c[next].status(), "200");
  EXPECT_TRUE(s.codec->idle());
  s.codec->closed();
  EXPECT_EQ(told, 5);
}

}  // namespace
}  // namespace weir::test
