// Compression of messages, and holding a peer back.
#include <gtest/gtest.h>

#include <chrono>
#include <new>

#include "grpc_fixture.h"
#include "wire/body_memory.h"
#include "wire/coding.h"
#include "wire/limits.h"

namespace weir::wire {
namespace {

using base::Bytes;
using support::grpc_frame;
using support::grpc_frames;
using support::grpc_status;
using support::GrpcFrame;
using namespace std::chrono_literals;

class GrpcFlow : public Grpc {};

std::string coded(Coding coding, std::string_view text) {
  Bytes piece = Bytes::copy_of(text);
  return std::string(deflate(coding, {&piece, 1}).view());
}
std::string inflated(Coding coding, std::string_view text) {
  Bytes out;
  auto in = std::as_bytes(std::span(text));
  return inflate_whole(coding, in, {}, base::heap(), &out) == Inflate::kDone ? std::string(out.view()) : "broken";
}

TEST_F(GrpcFlow, CompressedRequestsAreInflated) {
  std::string text(5000, 'a');
  for (Coding coding : {Coding::kGzip, Coding::kDeflate}) {
    auto x = run("Stream", grpc_frame(coded(coding, text), 1) + grpc_frame("plain") + grpc_frame(coded(coding, "b"), 1),
                 {{"grpc-encoding", std::string(name(coding))}});
    EXPECT_EQ(grpc_frames(x->sent), (std::vector<GrpcFrame>{{0, text}, {0, "plain"}, {0, "b"}}));
    EXPECT_EQ(grpc_status(*x), 0);
    EXPECT_FALSE(x->response.fields.has("grpc-encoding"));  // the client did not say that it accepts any
  }
}

TEST_F(GrpcFlow, AnUnknownEncodingIsUnimplementedAndNamesTheKnown) {
  auto x = run("Echo", grpc_frame("a"), {{"grpc-encoding", "snappy"}});
  EXPECT_EQ(grpc_status(*x), 12);
  EXPECT_EQ(x->response.fields.find("grpc-accept-encoding"), "identity, deflate, gzip");
  EXPECT_EQ(x->record().reject, reason::kGrpcEncoding);
}

TEST_F(GrpcFlow, ACompressedMessageWithoutAnEncodingIsInternal) {
  EXPECT_EQ(grpc_status(*run("Echo", grpc_frame(coded(Coding::kGzip, "a"), 1))), 13);
  EXPECT_EQ(grpc_status(*run("Echo", grpc_frame("a", 1), {{"grpc-encoding", "identity"}})), 13);
}

TEST_F(GrpcFlow, ABrokenCompressedMessageIsInternal) {
  std::string good = coded(Coding::kGzip, "hello hello hello");
  for (std::string bad : {std::string(), std::string("junk"), good.substr(0, good.size() - 1), good + "x"}) {
    auto x = run("Echo", grpc_frame(bad, 1), {{"grpc-encoding", "gzip"}});
    EXPECT_EQ(grpc_status(*x), 13) << bad.size();
  }
  EXPECT_EQ(service().echo.calls, 0);
}

TEST_F(GrpcFlow, AFewHundredKibibytesOfZerosAreNoBomb) {
  std::string zeros(271828, '\0');  // the payload of gRPC's interop cases
  auto x = run("Echo", grpc_frame(coded(Coding::kGzip, zeros), 1), {{"grpc-encoding", "gzip"}});
  EXPECT_EQ(grpc_status(*x), 0);
}

TEST_F(GrpcFlow, ABombIsResourceExhausted) {
  auto x = run("Echo", grpc_frame(coded(Coding::kGzip, std::string(10 << 20, '\0')), 1), {{"grpc-encoding", "gzip"}});
  bench().advance(*x, 1us);
  EXPECT_EQ(grpc_status(*x), 8);
  EXPECT_EQ(x->response.fields.find("grpc-message"),
            "message inflates to more than 100 times its size (limits.inflate_ratio)");
  EXPECT_EQ(x->record().reject, reason::kInflateBytes);
}

TEST_F(GrpcFlow, AnswersMirrorTheClientsEncodingWhenItAcceptsIt) {
  std::string text(5000, 'a');
  auto x = run("Stream", grpc_frame(coded(Coding::kGzip, text), 1) + grpc_frame("small"),
               {{"grpc-encoding", "gzip"}, {"grpc-accept-encoding", "identity,gzip"}});
  EXPECT_EQ(x->response.fields.find("grpc-encoding"), "gzip");
  auto frames = grpc_frames(x->sent);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].flag, 1);
  EXPECT_EQ(inflated(Coding::kGzip, frames[0].payload), text);
  EXPECT_EQ(frames[1], (GrpcFrame{0, "small"}));
}

TEST_F(GrpcFlow, AMethodMayCompressForAnyWhoAcceptsIt) {
  std::string text(500, 'a');
  auto send = [&](auto& x) {
    service().chat.seen.rpc->compress(MessageCompress::kAccepted);
    service().chat.seen.rpc->send(base::Bytes::copy_of(text));
    return grpc_frames(x.sent).at(0);
  };
  auto x = open("Chat", {{"grpc-accept-encoding", "identity, deflate"}});
  EXPECT_EQ(inflated(Coding::kDeflate, send(*x).payload), text);
  EXPECT_EQ(x->response.fields.find("grpc-encoding"), "deflate");
  auto plain = open("Chat");
  EXPECT_EQ(send(*plain), (GrpcFrame{0, text}));
  EXPECT_FALSE(plain->response.fields.has("grpc-encoding"));
}

TEST_F(GrpcFlow, AnEncodingIsNotChosenAfterTheHead) {
  auto x = open("Chat", {{"grpc-accept-encoding", "gzip"}});
  Rpc& rpc = *service().chat.seen.rpc;
  std::string text(2000, 'b');
  rpc.send(base::Bytes::copy_of(text));
  rpc.compress(MessageCompress::kAccepted);
  rpc.send(base::Bytes::copy_of(text));
  EXPECT_FALSE(x->response.fields.has("grpc-encoding"));
  EXPECT_EQ(grpc_frames(x->sent).at(1), (GrpcFrame{0, text}));
}

TEST_F(GrpcFlow, AMethodMayKeepMessagesPlainOneByOne) {
  auto x = open("Chat", {{"grpc-accept-encoding", "gzip"}});
  Rpc& rpc = *service().chat.seen.rpc;
  rpc.compress(MessageCompress::kAccepted);
  std::string text(2000, 'b');
  for (MessageCompress how : {MessageCompress::kNever, MessageCompress::kAccepted, MessageCompress::kNever}) {
    rpc.compress(how);
    rpc.send(base::Bytes::copy_of(text));
  }
  EXPECT_EQ(x->response.fields.find("grpc-encoding"), "gzip");
  auto frames = grpc_frames(x->sent);
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0], (GrpcFrame{0, text}));
  EXPECT_EQ(frames[1].flag, 1);
  EXPECT_EQ(frames[2], (GrpcFrame{0, text}));
}

TEST_F(GrpcFlow, AMethodLearnsWhichMessagesCameCompressed) {
  auto x = open("Chat", {{"grpc-encoding", "gzip"}});
  Rpc& rpc = *service().chat.seen.rpc;
  EXPECT_FALSE(rpc.came_compressed());
  bench().data(*x, grpc_frame(coded(Coding::kGzip, "one"), 1));
  EXPECT_TRUE(rpc.came_compressed());
  bench().data(*x, grpc_frame("two"));
  EXPECT_FALSE(rpc.came_compressed());
  EXPECT_EQ(service().chat.seen.log, (Log{"open", "message:one", "message:two"}));
}

TEST_F(GrpcFlow, WithoutASlabThePeerIsHeldAndTheMessageComesLater) {
  auto x = open("Chat");
  bench().slabs.empty = true;
  std::string body = grpc_frame("abc") + grpc_frame("d");
  RpcBench::data(*x, body);
  RpcBench::end(*x);
  EXPECT_EQ(x->consumed, 0u);
  EXPECT_EQ(service().chat.seen.log, (Log{"open"}));
  bench().advance(*x, 20ms);
  EXPECT_EQ(service().chat.seen.log, (Log{"open"}));
  bench().slabs.empty = false;
  bench().advance(*x, 20ms);
  EXPECT_EQ(service().chat.seen.log, (Log{"open", "message:abc", "message:d", "half-close"}));
  EXPECT_EQ(x->consumed, body.size());
  EXPECT_EQ(bench().env.armed(), 0u);
}

TEST_F(GrpcFlow, WhoWaitsForASlabInVainIsRefusedAndWhoIsSilentGivesWay) {
  BodyMemory::Need need;
  base::FakeEnv env;
  BodyMemory memory(env, need, {});
  options_.bodies = &memory;
  auto silent = open("Chat"), late = open("Chat");
  RpcBench::data(*silent, grpc_frame(std::string(1000, 'x')).substr(0, 10));
  env.advance(3s);
  EXPECT_FALSE(silent->ended) << "nobody needs what it holds";
  bench().slabs.empty = true;
  RpcBench::data(*late, grpc_frame("abc"));
  EXPECT_EQ(memory.waiting(), 1u);
  env.advance(2s);
  for (auto* x : {silent.get(), late.get()}) {
    EXPECT_EQ(grpc_status(*x), 8);
    EXPECT_EQ(x->response.fields.find("grpc-retry-pushback-ms"), "1000");
  }
  EXPECT_EQ(silent->record().reject, reason::kSlowBody);
  EXPECT_EQ(late->record().reject, reason::kOverload);
  EXPECT_EQ(memory.waiting(), 0u);
}

TEST_F(GrpcFlow, AMessageThatWaitsComesWhenThereIsMemory) {
  BodyMemory::Need need;
  base::FakeEnv env;
  BodyMemory memory(env, need, {});
  options_.bodies = &memory;
  auto x = open("Chat");
  bench().slabs.empty = true;
  RpcBench::data(*x, grpc_frame("abc") + grpc_frame("d"));
  bench().advance(*x, 20ms);
  bench().slabs.empty = false;
  memory.slabs_freed();
  bench().advance(*x, 0ms);
  EXPECT_EQ(service().chat.seen.log, (Log{"open", "message:abc", "message:d"}));
  EXPECT_EQ(memory.waiting(), 0u);
}

TEST_F(GrpcFlow, WithoutASlabToInflateIntoItWaitsToo) {
  auto x = open("Chat", {{"grpc-encoding", "gzip"}});
  std::string body = grpc_frame(coded(Coding::kGzip, "abc"), 1);
  RpcBench::data(*x, body.substr(0, 5));
  RpcBench::data(*x, body.substr(5, 3));  // its slab is taken now
  bench().slabs.empty = true;
  RpcBench::data(*x, body.substr(8) + grpc_frame("d"));
  EXPECT_EQ(service().chat.seen.log, (Log{"open"}));
  bench().slabs.empty = false;
  bench().advance(*x, 20ms);
  EXPECT_EQ(service().chat.seen.log, (Log{"open", "message:abc", "message:d"}));
  EXPECT_EQ(x->consumed, body.size() + 6);
}

TEST_F(GrpcFlow, WhereThereCanBeNoMemoryToInflateIntoTheCallIsRefused) {
  auto x = open("Chat", {{"grpc-encoding", "gzip"}});
  std::string body = grpc_frame(coded(Coding::kGzip, "abc"), 1);
  RpcBench::data(*x, body.substr(0, 8));  // its slab is taken now
  bench().slabs.empty = true;
  RpcBench::data(*x, body.substr(8));
  EXPECT_FALSE(x->ended);
  bench().slabs.is_hopeless = true;
  bench().advance(*x, 20ms);
  EXPECT_EQ(grpc_status(*x), 8);
  EXPECT_EQ(x->record().reject, reason::kOverload);
  EXPECT_EQ(x->consumed, body.size());
  EXPECT_EQ(bench().env.armed(), 0u);
}

TEST_F(GrpcFlow, AMethodWithoutMemoryEndsItsCallOnly) {
  struct Hungry final : RpcMethod {
    void call(Rpc&, base::Bytes) override { throw std::bad_alloc(); }
  } hungry;
  bench().server().add({"test.Service", "Eat", RpcKind::kUnary, &hungry, "test.In", "test.Out", "test"});
  auto x = run("Eat", grpc_frame("a"));
  EXPECT_EQ(grpc_status(*x), 8);
  EXPECT_EQ(x->record().reject, reason::kOverload);
  EXPECT_EQ(grpc_status(*run("Echo", grpc_frame("a"))), 0);
}

TEST_F(GrpcFlow, OfALargeMessageTheRestIsExpectedOnceItHasItsMemory) {
  options_.max_message = 8 << 20;
  auto x = open("Chat");
  std::string body = grpc_frame(std::string(6 << 20, 'x'));
  RpcBench::data(*x, body.substr(0, 256 << 10));
  EXPECT_EQ(x->expected, std::vector<size_t>{});
  RpcBench::data(*x, body.substr(256 << 10, 2 << 20));
  EXPECT_EQ(x->expected, std::vector<size_t>{(3840 << 10) + 5});
  RpcBench::data(*x, body.substr(2304 << 10, 3 << 20));
  EXPECT_EQ(x->expected.size(), 1u);
  RpcBench::data(*x, body.substr(5376 << 10) + grpc_frame("b"));
  EXPECT_EQ(x->expected, (std::vector<size_t>{(3840 << 10) + 5, 0}));
  RpcBench::data(*x, grpc_frame(std::string(1 << 20, 'x')));
  EXPECT_EQ(x->expected.size(), 2u);
}

TEST_F(GrpcFlow, ALongCompressedMessageIsInflatedInSlices) {
  std::string text(20 << 20, 'a');
  options_.max_message = 64 << 20, options_.inflate_ratio = 10'000;
  auto x = open("Slow", {{"grpc-encoding", "gzip"}});
  RpcBench::data(*x, grpc_frame(coded(Coding::kGzip, text), 1));
  RpcBench::end(*x);
  int turns = 0;
  for (; service().slow.seen.log.empty(); ++turns) {
    ASSERT_LT(turns, 200);
    bench().advance(*x, 1us);
  }
  EXPECT_GE(turns, 39);
  EXPECT_EQ(service().slow.seen.log.front().size(), text.size() + 6);
}

TEST_F(GrpcFlow, AMessageThatIsBeingInflatedGoesWithItsCall) {
  options_.max_message = 64 << 20, options_.inflate_ratio = 10'000;
  auto x = open("Slow", {{"grpc-encoding", "gzip"}});
  RpcBench::data(*x, grpc_frame(coded(Coding::kGzip, std::string(8 << 20, 'a')), 1));
  RpcBench::end(*x);
  EXPECT_EQ(bench().env.armed(), 1u);
  x.reset();
  EXPECT_EQ(bench().env.armed(), 0u);
}

// A method whose listener is full when the test says so.
class Filling final : public RpcMethod {
 public:
  bool full = false;
  support::Seen seen;
  void open(Rpc& rpc) override {
    seen.rpc = &rpc;
    rpc.attach(std::make_unique<Listener>(*this));
  }

 private:
  class Listener final : public support::SeenListener {
   public:
    explicit Listener(Filling& method) : SeenListener(method.seen), method_(method) {}
    bool full() const override { return method_.full; }
    void on_message(Rpc& rpc, Bytes message) override {
      SeenListener::on_message(rpc, std::move(message));
      method_.full = true;
    }

   private:
    Filling& method_;
  };
};

TEST_F(GrpcFlow, AFullListenerIsGivenNothingUntilItHasRoom) {
  service();
  Filling filling;
  bench().server().add({"test.Service", "Fill", RpcKind::kBidi, &filling, "test.In", "test.Out", "test"});
  auto x = open("Fill");
  RpcBench::data(*x, grpc_frame("a") + grpc_frame("b") + grpc_frame("c"));
  RpcBench::end(*x);
  EXPECT_EQ(filling.seen.log, (Log{"message:a"}));
  EXPECT_LT(x->consumed, grpc_frame("a").size() * 3) << "the peer is held back";
  bench().advance(*x, 5ms);
  EXPECT_EQ(filling.seen.log, (Log{"message:a"}));
  filling.full = false;
  bench().advance(*x, 5ms);
  EXPECT_EQ(filling.seen.log, (Log{"message:a", "message:b"}));
  filling.full = false;
  bench().advance(*x, 5ms);
  EXPECT_EQ(filling.seen.log, (Log{"message:a", "message:b", "message:c", "half-close"}));
  filling.seen.rpc->finish({});
  EXPECT_EQ(grpc_status(*x), 0);
}

TEST_F(GrpcFlow, AnswersAtTheHighWaterMarkHoldTheNextMessageBackOnlyBeyondIt) {
  auto x = open("Chat");
  Rpc& rpc = *service().chat.seen.rpc;
  rpc.send(Bytes::copy_of(std::string(Exchange::kHighWater - 5, 'x')));
  x->fake_backlog = Exchange::kHighWater;
  RpcBench::data(*x, grpc_frame("at it"));
  EXPECT_EQ(service().chat.seen.log.back(), "message:at it");
  x->fake_backlog = Exchange::kHighWater + 1;
  RpcBench::data(*x, grpc_frame("beyond"));
  EXPECT_EQ(service().chat.seen.log.back(), "message:at it");
  x->fake_backlog = 0;
  if (x->listener()) x->listener()->on_drain(*x);
  EXPECT_EQ(service().chat.seen.log.back(), "message:beyond");
}

}  // namespace
}  // namespace weir::wire
