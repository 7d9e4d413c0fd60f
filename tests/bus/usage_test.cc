// The tokens that a key is charged for its Calls.
#include "bus_fixture.h"

namespace weir::bus {
namespace {

TEST(Bus, TokensAreChargedAsTheyComeAlsoOfACallThatIsAbandoned) {
  Bench t;
  auto limiter = std::make_shared<base::UsageLimiter>("k", base::UsageLimits{0, 0, 600, 0});
  auto send = [&](const char* id) {
    auto* call = t.call(id);
    call->limiter = limiter;
    call->generation = std::make_unique<msg::Generation>();
    call->generation->append.resize(598);
    EXPECT_TRUE(support::submit(t.bus, call).ok());
    return call;
  };
  auto* call = send("a");
  EXPECT_TRUE(limiter->again(t.env.now()).ok()) << "two are left";
  t.answer(call, {msg::Token{.prefill = true}});
  t.answer(call, {msg::Token{}});
  t.bus.turn();
  EXPECT_TRUE(limiter->again(t.env.now()).ok());
  t.bus.abandon(call);
  t.answer(call, {msg::Token{}});
  t.answer(call, {msg::Failed{}});
  t.bus.turn();
  EXPECT_FALSE(limiter->again(t.env.now()).ok());
  t.env.advance(60s);
  auto* other = send("b");
  t.answer(other, {msg::Token{}});
  t.answer(other, {msg::Done{.completion_tokens = 1}});
  t.bus.turn();
  EXPECT_TRUE(limiter->again(t.env.now()).ok()) << "the last Event counts what was not counted before";
  auto* blank = t.bus.make_call();
  EXPECT_EQ(blank->limiter, nullptr);
  t.bus.discard(blank);
  auto* tensors = t.call("c");
  tensors->limiter = limiter;
  ASSERT_TRUE(support::submit(t.bus, tensors).ok());
  t.answer(tensors);
  t.bus.turn();
  EXPECT_TRUE(limiter->again(t.env.now()).ok()) << "tensors cost no tokens";
  t.env.advance(60s);
  auto* last = send("d");
  t.answer(last, {msg::Token{}});
  t.answer(last, {msg::Done{.completion_tokens = 2}});
  t.bus.turn();
  EXPECT_FALSE(limiter->again(t.env.now()).ok()) << "all 600 are spent";
}

TEST(Bus, IdsForAnEncoderAreChargedWhicheverProtocolHasBroughtThem) {
  Bench t;
  t.served().spec.encoder = std::make_shared<msg::TextSpec>();
  t.served().spec.inputs = {{"input_ids", msg::DType::kInt64, {-1}, false, {}}};
  auto limiter = std::make_shared<base::UsageLimiter>("k", base::UsageLimits{0, 0, 600, 0});
  auto* call = t.call("a");
  call->limiter = limiter;
  call->inputs.push_back({"attention_mask", msg::DType::kInt64, {2, 250}, {}});
  call->inputs.push_back({"input_ids", msg::DType::kInt64, {2, 250}, {}});
  ASSERT_TRUE(support::submit(t.bus, call).ok());
  EXPECT_TRUE(limiter->again(t.env.now()).ok()) << "100 are left";
  auto* more = t.call("b");
  more->limiter = limiter;
  more->inputs.push_back({"input_ids", msg::DType::kInt64, {1, 100}, {}});
  ASSERT_TRUE(support::submit(t.bus, more).ok());
  EXPECT_FALSE(limiter->again(t.env.now()).ok());
  t.answer(call), t.answer(more);
  t.bus.turn();
}

}  // namespace
}  // namespace weir::bus
