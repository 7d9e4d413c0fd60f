// An exception while a session goes on by a timer ends that session.
#include <new>

#include "bench.h"

namespace weir::evergreen {
namespace {

using namespace std::chrono_literals;

struct HungryJson final : wire::JsonForm {
  bool throws = false;
  base::Result<std::string> to_binary(std::string_view, std::string_view) override {
    if (throws) throw std::bad_alloc();
    return std::string();
  }
  base::Result<std::string> to_json(std::string_view, std::string_view) override { return std::string("{}"); }
};

TEST(EvergreenThrow, APumpThatThrowsEndsItsSession) {
  support::RpcBench rpc;
  bus::Bus bus{rpc.env, base::ShardId{0}, [] {}};
  HungryJson json;
  Evergreen evergreen(bus, rpc.router, rpc.server(), rpc.slabs, json, {}, nullptr);
  support::FakeExchange x("POST", "/evergreen/v2/session");
  rpc.router.begin(x);
  x.fake_backlog = 10 << 20;  // the client does not read, so its lines wait
  rpc.data(x, "{}\n");
  json.throws = true;
  x.fake_backlog = 0;
  rpc.env.advance(1s);
  EXPECT_TRUE(x.was_reset);
  EXPECT_EQ(x.record().code, base::Code::kResourceExhausted);
  x.close(false);
  rpc.router.closed(x);
  EXPECT_EQ(rpc.env.armed(), 0u);
}

}  // namespace
}  // namespace weir::evergreen
