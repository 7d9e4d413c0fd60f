// baidu_std against its description (Apache brpc, docs/cn/baidu_std.md): packets in, calls of a made-up service,
// packets out.
#include "baidu_std_fixture.h"
#include "wire/coding.h"

namespace weir::wire::baidu {
namespace {

TEST_F(BaiduStd, AnswersACall) {
  const Reply reply = talk(ask("Echo", 7, "hello"));
  EXPECT_EQ(0u, reply.error);
  EXPECT_EQ("hello", reply.message);
  EXPECT_EQ("", talk(ask("Echo", 7, "")).message);
  EXPECT_TRUE(codec().idle());
  EXPECT_EQ("baidu_std", codec().protocol());
}

TEST_F(BaiduStd, PacketsMayBeCutAnywhereAndFollowEachOther) {
  const std::string all = ask("Echo", 7, "one", number_field(5, 3)) + ask("Echo", 8, "two") + ask("Echo", 9, "");
  const std::string attachment = ask("Echo", 7, "oneXYZ", number_field(5, 3)) + all.substr(all.find("PRPC", 4));
  for (size_t at = 1; at < attachment.size(); ++at) {
    codec_.reset();
    feed(std::string_view(attachment).substr(0, at));
    auto some = replies();
    feed(std::string_view(attachment).substr(at));
    some.merge(replies());
    ASSERT_EQ(3u, some.size()) << at;
    ASSERT_EQ("one", some[7].message) << at;
    ASSERT_EQ("two", some[8].message) << at;
  }
}

TEST_F(BaiduStd, CallsRunSideBySideAndAreAnsweredInAnyOrder) {
  feed(ask("Slow", 1, "late") + ask("Echo", 2, "soon"));
  EXPECT_EQ("soon", replies()[2].message);
  service_.slow.seen.rpc->send(base::Bytes::copy_of("done"));
  service_.slow.seen.rpc->finish({});
  EXPECT_EQ("done", replies()[1].message);
  EXPECT_EQ((std::vector<uint64_t>{2, 1}), order_);
}

// It leaves when it is whole: who waits until the peer has taken a part would wait for ever.
TEST_F(BaiduStd, NobodyWaitsForRoomBehindAnAnswerThatIsNotWhole) {
  feed(ask("Slow", 7, "x"));
  Rpc* rpc = service_.slow.seen.rpc;
  rpc->send(base::Bytes::adopt(std::string(2 * Exchange::kHighWater, 'y')));
  EXPECT_TRUE(rpc->has_room());
  rpc->finish({});
  EXPECT_GT(rpc->backlog(), Exchange::kHighWater);
  EXPECT_EQ(2 * Exchange::kHighWater, replies()[7].message.size());
}

TEST_F(BaiduStd, StatusesBecomeBrpcsErrors) {
  feed(ask("Slow", 7, "x"));
  service_.slow.seen.rpc->finish(base::invalid("100 % wrong\n"));
  const Reply wrong = replies()[7];
  EXPECT_EQ(22u, wrong.error);  // EINVAL
  EXPECT_EQ("100 % wrong\n", wrong.text);
  const Reply nobody = talk(ask("Nope", 7, "x"));
  EXPECT_EQ(1002u, nobody.error);  // ENOMETHOD
  EXPECT_EQ("unknown method Nope of test.Service", nobody.text);
  EXPECT_EQ("unknown service a.B", talk(ask("Echo", 7, "x", {}, "a.B")).text);
  EXPECT_EQ("unknown service Nobody", talk(ask("Echo", 7, "x", {}, "Nobody")).text);
  EXPECT_EQ(1003u, talk(ask("Echo/..", 7, "x")).error);                    // EREQUEST
  EXPECT_EQ(1003u, talk(ask("Echo", 7, "x", number_field(3, 4))).error);   // LZ4
  EXPECT_EQ(1003u, talk(ask("Echo", 7, "x", number_field(10, 1))).error);  // JSON
  EXPECT_EQ("hello", talk(ask("Echo", 7, "hello")).message);               // the connection goes on
}

TEST_F(BaiduStd, GzipAndZlibAreReadAndAnsweredAlike) {
  const std::string text(5000, 'a');
  for (auto [number, coding] : {std::pair(2u, Coding::kGzip), std::pair(3u, Coding::kDeflate)}) {
    base::Bytes piece = base::Bytes::copy_of(text);
    const Reply reply = talk(ask("Echo", 7, deflate(coding, {&piece, 1}).view(), number_field(3, number)));
    EXPECT_EQ(0u, reply.error) << reply.text;
    EXPECT_EQ(number, reply.coding);
    const auto plain =
        inflate_whole(coding, std::as_bytes(std::span(reply.message)), {1 << 20, 100}, bench_.slabs, &piece);
    EXPECT_EQ(Inflate::kDone, plain);
    EXPECT_EQ(text, piece.view());
  }
  EXPECT_EQ(2001u, talk(ask("Echo", 7, "not gzip", number_field(3, 2))).error);  // EINTERNAL
}

TEST_F(BaiduStd, AServiceMayBeNamedWithoutItsPackage) {
  EXPECT_EQ("hello", talk(ask("Echo", 7, "hello", {}, "Service")).message);
  EXPECT_EQ("unknown service Service", talk(ask("Nope", 7, "x", {}, "Service")).text);
  RpcServer& server = bench_.server();
  server.add({"other.Service", "Echo", RpcKind::kUnary, &service_.slow, {}, {}, "grpc", Permission::kInfer});
  EXPECT_EQ("unknown service Service", talk(ask("Echo", 7, "x", {}, "Service")).text) << "there are two of that name";
  EXPECT_EQ("hello", talk(ask("Echo", 7, "hello")).message);
}

// As brpc has them: read, and never written.
TEST_F(BaiduStd, SnappyIsReadAndAnsweredPlainly) {
  const std::string coded = std::string(
      "\x1e\x08"
      "abc\x6a\x03\x00",
      8);  // 3 bytes, and 27 like them
  const Reply reply = talk(ask("Echo", 7, coded, number_field(3, 1)));
  EXPECT_EQ(0u, reply.error) << reply.text;
  EXPECT_EQ(0u, reply.coding);
  EXPECT_EQ("abcabcabcabcabcabcabcabcabcabc", reply.message);
  EXPECT_EQ(2001u, talk(ask("Echo", 7, coded.substr(0, 7), number_field(3, 1))).error);  // EINTERNAL
  EXPECT_EQ("hello", talk(ask("Echo", 7, "hello")).message);
}

TEST_F(BaiduStd, TimeoutsAndFieldsAreThoseOfTheCall) {
  const std::string call =
      text_field(1, "test.Service") + text_field(2, "Slow") + text_field(7, "id-1") + number_field(8, 1500);
  feed(packet(text_field(1, call) + number_field(4, 7) + user_field("Tenant", "a") + user_field("content-type", "b") +
                  user_field(":path", "/c") + user_field("x y", "d") + user_field("x", "e\r\nf"),
              "x"));
  Rpc* rpc = service_.slow.seen.rpc;
  ASSERT_NE(nullptr, rpc);
  EXPECT_EQ("id-1", rpc->metadata().find("x-request-id"));
  EXPECT_EQ("a", rpc->metadata().find("tenant"));
  EXPECT_EQ("application/grpc", rpc->metadata().find("content-type"));
  EXPECT_FALSE(rpc->metadata().has("x") || rpc->metadata().has(":path") || rpc->metadata().has("x y"));
  EXPECT_EQ(wire_.now() + 1500ms, rpc->deadline());
  const std::string endless = text_field(1, "test.Service") + text_field(2, "Echo") + number_field(8, 2147483647);
  EXPECT_EQ(0u, talk(packet(text_field(1, endless) + number_field(4, 7), "x")).error);
  rpc->initial("said", "first");
  rpc->trailing("said-too", "last");
  rpc->send(base::Bytes::copy_of("y"));
  rpc->finish({});
  const Reply reply = replies()[7];
  EXPECT_EQ("first", reply.fields.at("said"));
  EXPECT_EQ("last", reply.fields.at("said-too"));
}

TEST_F(BaiduStd, ACredentialHoldsForTheConnection) {
  std::vector<std::string> shown;
  for (std::string more :
       {text_field(7, "key-1"), std::string(), text_field(7, "Basic eA=="), user_field("authorization", "Bearer z")}) {
    feed(ask("Slow", 7, "x", more));
    shown.emplace_back(service_.slow.seen.rpc->metadata().find("authorization"));
    service_.slow.seen.rpc->finish({});
  }
  EXPECT_EQ((std::vector<std::string>{"Bearer key-1", "Bearer key-1", "Basic eA==", "Bearer z"}), shown);
  feed(ask("Slow", 7, "x", user_field("x-api-key", "k")));  // another key in its place
  EXPECT_FALSE(service_.slow.seen.rpc->metadata().has("authorization"));
  service_.slow.seen.rpc->finish({});
  EXPECT_EQ(1004u, talk(ask("Echo", 7, "x", text_field(7, "a\nb"))).error);  // ERPCAUTH
}

TEST_F(BaiduStd, AStreamOfAnswersIsRefusedAndItsMethodEnds) {
  feed(ask("Watch", 7, "x"));
  service_.watch.seen.rpc->send(base::Bytes::copy_of("1"));
  EXPECT_TRUE(replies().empty());
  service_.watch.seen.rpc->send(base::Bytes::copy_of("2"));
  codec().tick(wire_.now());
  EXPECT_EQ("close", service_.watch.seen.log.back());
  EXPECT_EQ(1002u, replies()[7].error);
  feed(ask("Spell", 7, "abc"));
  codec().tick(wire_.now());
  EXPECT_EQ(1002u, replies()[7].error);
  EXPECT_EQ("a", talk(ask("Spell", 7, "a")).message);
  EXPECT_EQ(2001u, talk(ask("Spell", 7, "")).error);  // EINTERNAL: no message at all
}

TEST_F(BaiduStd, ALongMessageIsReadToItsSlab) {
  const std::string message(900'000, 'm'), all = ask("Echo", 7, message);
  codec().feed(std::as_bytes(std::span(all).first(100)));
  codec_ = codec().successor();
  const auto room = codec().receive_buffer();
  EXPECT_GT(room.size(), 4096u);
  feed(std::string_view(all).substr(100));
  EXPECT_EQ(message, replies()[7].message);
}

}  // namespace
}  // namespace weir::wire::baidu
