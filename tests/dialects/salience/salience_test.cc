// Sessions: opened, forked, closed, and reached from every shard.
#include "dialects/salience/salience.h"

#include <gtest/gtest.h>

#include "bench.h"
#include "support/cpu_time.h"

namespace weir::salience {
namespace {

using Code = base::Code;

TEST(Salience, OpenSessionChecksTheModel) {
  Bench t;
  auto open = [&](std::string model) {
    pb::OpenSessionRequest request;
    request.set_model(model);
    return t.ask<pb::OpenSessionResponse>("OpenSession", request);
  };
  auto good = open("chat");
  EXPECT_EQ(good.status, 0);
  EXPECT_EQ(good.response.session_id().size(), 32u);
  EXPECT_EQ(good.response.max_model_len(), 100u);
  EXPECT_EQ(open("").status, 0);  // there is but one
  EXPECT_EQ(open("chatt").status, number(Code::kNotFound));
  auto tensors = open("tensors");
  EXPECT_EQ(tensors.status, number(Code::kFailedPrecondition));
  EXPECT_EQ(tensors.text, "model 'tensors' makes no tokens");
  t.add("second", text_spec());
  t.publish();
  EXPECT_EQ(open("").text,
            "no model is named, and there is more than one model that makes tokens: name one of chat, second, or set "
            "models.default");
  t.catalog->models.clear();
  t.publish();
  EXPECT_EQ(open("").status, number(Code::kNotFound));
}

TEST(Salience, TheDefaultModelIsASetting) {
  Bench t;
  t.catalog->default_model = "second";
  auto other = text_spec();
  other->concepts = {"other"};
  t.add("second", other);
  t.publish();
  auto manifest = t.ask<pb::ReadoutManifest>("GetReadoutManifest", pb::GetReadoutManifestRequest());
  EXPECT_EQ(manifest.response.ShortDebugString(),
            "concepts: \"other\" layers: 1 layers: 3 hidden_size: 64 dtype: \"float32\"");
}

TEST(Salience, ClosingIsIdempotent) {
  Bench t;
  auto id = t.open();
  for (auto name : {id, id, std::string("0123456789abcdef0123456789abcdef"), std::string("nonsense"), std::string()}) {
    pb::CloseSessionRequest request;
    request.set_session_id(name);
    EXPECT_EQ(t.ask<pb::CloseSessionResponse>("CloseSession", request).status, 0) << name;
  }
  EXPECT_EQ(t.refused(Bench::request(id, 0, {1}, 1)).code, number(Code::kNotFound));
}

TEST(Salience, AForkGoesItsOwnWay) {
  Bench t;
  auto id = t.open();
  t.grow(id, 0, {1, 2, 3, 4});
  pb::ForkSessionRequest request;
  request.set_session_id(id);
  request.set_at_position(3);
  auto fork = t.ask<pb::ForkSessionResponse>("ForkSession", request);
  ASSERT_EQ(fork.status, 0);
  t.grow(fork.response.session_id(), 3, {9});
  EXPECT_EQ(t.dump(fork.response.session_id()), (Ids{1, 2, 3, 9}));
  EXPECT_EQ(t.dump(id), (Ids{1, 2, 3, 4}));
  request.set_at_position(5);
  EXPECT_EQ(t.ask<pb::ForkSessionResponse>("ForkSession", request).status, number(Code::kFailedPrecondition));
  request.set_session_id("x");
  EXPECT_EQ(t.ask<pb::ForkSessionResponse>("ForkSession", request).status, number(Code::kNotFound));
}

TEST(Salience, ABrokenMessageIsRefused) {
  Bench t;
  for (std::string method :
       {"OpenSession", "CloseSession", "ForkSession", "DumpSession", "GetReadoutManifest", "Generate"}) {
    auto x = t.shards[0]->wire.run("/salience.v1.Salience/" + method, support::grpc_frame("\x0a\xff"));
    EXPECT_EQ(support::grpc_status(*x), number(Code::kInvalidArgument)) << method;
  }
  auto x = t.shards[0]->wire.run("/salience.v1.Salience/OpenSession",
                                 support::grpc_frame(std::string("\x0a\x80\x80\x08", 4) + std::string(1 << 17, 'x')));
  EXPECT_EQ(support::grpc_status(*x), number(Code::kInvalidArgument));
}

// Control calls have 16 KiB, and as many groups of fields that nobody knows as protobuf takes.
TEST(Salience, AControlCallHasItsBytesItsDepthAndNoMore) {
  Bench t;
  const std::string malformed = "the message is not a ";
  for (std::string method : {"OpenSession", "CloseSession", "ForkSession", "DumpSession", "GetReadoutManifest"}) {
    auto said = [&](const std::string& message) {
      auto x = t.shards[0]->wire.run("/salience.v1.Salience/" + method, support::grpc_frame(message));
      return support::grpc_message(*x).substr(0, malformed.size());
    };
    auto unknown = [](size_t bytes) {  // one field that nobody knows
      const size_t n = bytes - 4;
      return std::string{'\x7a', char(n % 128 | 128), char(n / 128 % 128 | 128), char(n / 16384)} + std::string(n, 'x');
    };
    EXPECT_NE(said(unknown(16 << 10)), malformed) << method;
    EXPECT_EQ(said(unknown((16 << 10) + 1)), malformed) << method;
    auto groups = [](size_t n) { return std::string(n, '\x7b') + std::string(n, '\x7c'); };
    EXPECT_NE(said(groups(100)), malformed) << method;
    EXPECT_EQ(said(groups(101)), malformed) << method;
    EXPECT_EQ(said(std::string(16'000, '\x7b')), malformed) << method;
  }
}

TEST(Salience, AControlCallTakesTimeInProportion) {
  Bench t;
  auto work = [&](size_t n) {
    std::string message;
    for (size_t i = 0; i < n; ++i) message += "\x78\x01";
    for (int i = 0; i < 50; ++i)
      t.shards[0]->wire.run("/salience.v1.Salience/GetReadoutManifest", support::grpc_frame(message));
  };
  EXPECT_LE(support::growth(4'000, work), 2.5);
}

TEST(SalienceShards, ASessionIsReachedFromEveryShard) {
  Bench t({}, 3);
  auto id = t.open("chat", 1);
  auto x = t.generate(Bench::request(id, 0, {1, 2}, 2), 2);
  EXPECT_EQ(t.refused(Bench::request(id, 0, {1}, 1), 0).code, number(Code::kAborted));
  t.token(3, 2);
  t.finish();
  EXPECT_EQ(show(x),
            "token { id: 3 position: 2 }\n"
            "done { prompt_tokens: 2 completion_tokens: 1 total_tokens: 3 finish_reason: FINISH_REASON_EOS }\n");
  EXPECT_EQ(t.dump(id, 0), (Ids{1, 2, 3}));
  EXPECT_EQ(t.refused(Bench::request(id, 1, {1}, 1), 0).metadata.at("length"), "3");
  pb::CloseSessionRequest close;
  close.set_session_id(id);
  EXPECT_EQ(t.ask<pb::CloseSessionResponse>("CloseSession", close, 0).status, 0);
  EXPECT_EQ(t.refused(Bench::request(id, 3, {1}, 1), 2).code, number(Code::kNotFound));
  EXPECT_EQ(t.chat().released.size(), 1u);
}

TEST(SalienceShards, AClientMayLeaveWhileItsQuestionIsOnTheWay) {
  Bench t({}, 2);
  auto id = t.open("chat", 0);
  auto message = support::grpc_frame(Bench::request(id, 0, {1}, 1).SerializeAsString());
  auto x = t.shards[1]->wire.run("/salience.v1.Salience/Generate", message);
  x.reset();
  t.run();
  EXPECT_TRUE(t.chat().held.empty());
  pb::DumpSessionRequest dump;
  dump.set_session_id(id);
  t.shards[1]->wire.run("/salience.v1.Salience/DumpSession", support::grpc_frame(dump.SerializeAsString())).reset();
  t.run();
  auto y = t.generate(Bench::request(id, 0, {1}, 1), 1);
  EXPECT_EQ(t.chat().held.size(), 1u);
}

}  // namespace
}  // namespace weir::salience
