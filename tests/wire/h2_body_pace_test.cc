// Requests of one connection that wait for each other, and are not slow for that.
#include <string>

#include "support/h2_client.h"
#include "support/rpc_methods.h"
#include "support/rpc_wire.h"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

struct CountSlow final : wire::Observer {
  size_t slow = 0;
  void finished(const wire::Exchange& x) override { slow += x.record().reject == wire::reason::kSlowBody; }
  void rejected(std::string_view, const wire::PeerInfo&) override {}
};

// Calls begin, each with the prefix of its message; then the messages come, one after the other.
TEST(H2BodyPace, CallsThatWaitForEachOtherAreNotSlow) {
  constexpr uint32_t kCalls = 20;
  const std::string message = support::grpc_frame(std::string(200'000, 'x'));
  for (size_t a_second : {size_t(100'000), size_t(15'000)}) {
    const bool fast = a_second == 100'000;
    Server s;
    wire::Router router{s.wire.env};
    CountSlow count;
    router.observe(count);
    wire::RpcServer rpc{router, s.wire.env, s.slabs, nullptr, {.min_body_rate = 1024}};
    support::TestService service{rpc};
    s.restart({router, s.slabs, s.limits});
    s.feed(opening());
    const Headers call{{":method", "POST"},
                       {":scheme", "http"},
                       {":path", "/test.Service/Slow"},
                       {":authority", "h"},
                       {"content-type", "application/grpc"},
                       {"te", "trailers"}};
    for (uint32_t i = 0; i < kCalls; ++i)
      s.feed(frame(1, kEndHeaders, 2 * i + 1, block(call)) + frame(0, 0, 2 * i + 1, message.substr(0, 5)));
    for (uint32_t i = 0; i < (fast ? kCalls : 1); ++i)
      for (size_t sent = 5; sent < message.size(); sent += a_second) {
        for (size_t n = sent; n < std::min(sent + a_second, message.size()); n += 5000)
          s.feed(frame(0, 0, 2 * i + 1, message.substr(n, 5000)));
        if (sent + a_second >= message.size()) s.feed(frame(0, kEndStream, 2 * i + 1, ""));
        s.advance(1s);
        s.take();
      }
    // 20 messages have to bring 20 KiB a second together.
    EXPECT_EQ(service.slow.seen.log.size(), fast ? kCalls : 1u);
    EXPECT_EQ(count.slow, fast ? 0 : kCalls - 1);
    s.codec.reset();
  }
}

// A client that sends its bodies one after the other has an answer to the first of them before it has sent that.
TEST(H2BodyPace, ABodyBehindItsAnswerMakesNoOtherOneSlow) {
  for (size_t a_second : {size_t(40'000), size_t(1500)}) {
    Server s;
    s.intake.on_begin = [](wire::Exchange& x) {
      if (x.request().target == "/absent") x.respond(404, "text/plain", base::Bytes::copy_of("no"));
      return wire::Plan{};
    };
    Client c;
    Headers absent = kPost;
    absent[2].second = "/absent";
    const int32_t good = c.request(kPost, {}, true), answered = c.request(absent, {}, true);
    c.talk(s);
    for (int32_t id : {answered, good})
      for (int second = 0; second < 15; ++second) {
        c.more(id, std::string(a_second, 'x'), second == 14);
        c.talk(s);
        s.advance(1s);
      }
    c.talk(s);
    EXPECT_EQ(c[answered].status(), "404") << a_second;
    EXPECT_FALSE(c[good].reset) << a_second;
    EXPECT_EQ(c[good].body, "ok") << a_second;
  }
}

}  // namespace
}  // namespace weir::test
