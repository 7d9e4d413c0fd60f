// baidu_std against its description (Apache brpc, docs/cn/baidu_std.md): packets in, calls of a made-up service,
// packets out.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/fake_wire.h"
#include "support/rpc_methods.h"
#include "support/rpc_wire.h"
#include "wire/baidu_std_packet.h"
#include "wire/codec.h"
#include "wire/coding.h"

namespace weir::wire {
namespace {

using namespace std::chrono_literals;
using support::take_output;

std::string varint(uint64_t n) {
  std::string out;
  for (; n >= 0x80; n >>= 7) out += char((n & 0x7f) | 0x80);
  return out += char(n);
}
std::string text_field(uint32_t number, std::string_view text) {
  return varint(number << 3 | 2) + varint(text.size()) + std::string(text);
}
std::string number_field(uint32_t number, uint64_t n) { return varint(number << 3) + varint(n); }
std::string size(size_t n) { return {char(n >> 24), char(n >> 16), char(n >> 8), char(n)}; }

std::string packet(std::string_view meta, std::string_view rest) {
  return "PRPC" + size(meta.size() + rest.size()) + size(meta.size()) + std::string(meta) + std::string(rest);
}
// A request; `more` is further fields of its meta.
std::string ask(std::string_view method, uint64_t id, std::string_view message, std::string_view more = {},
                std::string_view service = "test.Service") {
  const std::string call = text_field(1, service) + text_field(2, method);
  return packet(text_field(1, call) + number_field(4, id) + std::string(more), message);
}
std::string user_field(std::string_view name, std::string_view value) {
  return text_field(9, text_field(1, name) + text_field(2, value));
}

struct Reply {
  uint64_t error = 0, coding = 0;
  std::string text, message;
  std::map<std::string, std::string> fields;
};

uint64_t take_varint(std::string_view& in) {
  uint64_t n = 0;
  for (unsigned shift = 0; !in.empty(); shift += 7) {
    const auto byte = uint8_t(in.front());
    in.remove_prefix(1);
    n |= uint64_t(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return n;
}
// A message's fields: texts by their number, and numbers.
struct Parsed {
  std::multimap<uint64_t, std::string> texts;
  std::map<uint64_t, uint64_t> numbers;
  std::string text(uint64_t number) const {
    auto at = texts.find(number);
    return at == texts.end() ? "" : at->second;
  }
};
Parsed parse(std::string_view in) {
  Parsed out;
  while (!in.empty()) {
    const uint64_t tag = take_varint(in), value = take_varint(in);
    if ((tag & 7) == 0) {
      out.numbers[tag >> 3] = value;
      continue;
    }
    out.texts.emplace(tag >> 3, in.substr(0, value));
    in.remove_prefix(std::min<size_t>(value, in.size()));
  }
  return out;
}
size_t size_at(std::string_view in, size_t at) {
  size_t n = 0;
  for (size_t i = 0; i < 4; ++i) n = n << 8 | uint8_t(in[at + i]);
  return n;
}

class BaiduStd : public testing::Test {
 protected:
  BaiduStd() : service_(bench_.server()) {}

  Codec& codec() {
    if (!codec_) codec_ = make_sniff(env_, wire_, peer_);
    return *codec_;
  }
  void feed(std::string_view bytes) { support::feed(codec(), bytes); }
  // The answers since the last call, by correlation_id, with its order.
  std::map<uint64_t, Reply> replies() {
    std::map<uint64_t, Reply> out;
    const std::string all = take_output(codec());
    for (std::string_view in = all; !in.empty();) {
      EXPECT_EQ(in.substr(0, 4), "PRPC");
      const size_t body = size_at(in, 4), meta = size_at(in, 8);
      const Parsed parsed = parse(in.substr(12, meta));
      const Parsed response = parse(parsed.text(2));
      const uint64_t id = parsed.numbers.at(4);
      Reply& reply = out[id];
      reply.error = response.numbers.contains(1) ? response.numbers.at(1) : 0;
      reply.text = response.text(2);
      reply.coding = parsed.numbers.contains(3) ? parsed.numbers.at(3) : 0;
      reply.message = in.substr(12 + meta, body - meta);
      for (auto [at, end] = parsed.texts.equal_range(9); at != end; ++at) {
        const Parsed entry = parse(at->second);
        reply.fields[entry.text(1)] = entry.text(2);
      }
      order_.push_back(id);
      in.remove_prefix(12 + body);
    }
    return out;
  }
  Reply talk(std::string_view bytes) {
    feed(bytes);
    return replies()[7];
  }
  void pass(base::Duration by) {
    for (base::Duration t = 1s; t <= by; t += 1s) {
      wire_.env.advance(1s);
      codec().tick(wire_.now());
    }
  }

  support::RpcBench bench_;
  support::TestService service_;
  support::FakeWire wire_;
  Limits limits_;
  PeerInfo peer_{"127.0.0.1:5000", Security::kCleartext};
  CodecEnv env_{bench_.router, bench_.slabs, limits_};
  std::unique_ptr<Codec> codec_;
  std::vector<uint64_t> order_;
};

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
  EXPECT_EQ(1001u, talk(ask("Echo", 7, "x", {}, "Service")).error);        // ENOSERVICE
  EXPECT_EQ(1003u, talk(ask("Echo/..", 7, "x")).error);                    // EREQUEST
  EXPECT_EQ(1003u, talk(ask("Echo", 7, "x", number_field(3, 1))).error);   // snappy
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

TEST_F(BaiduStd, WhatIsNoPacketEndsTheConnection) {
  const std::string good = text_field(1, text_field(1, "test.Service") + text_field(2, "Echo"));
  const std::vector<std::string> bad = {
      "PRPX" + size(10) + size(5),
      "PRPC" + size(5) + size(10) + good,  // the meta is longer than the body
      packet("", "x"),
      packet("\x0a", "x"),
      packet(good + "\x0b", "x"),              // no request; cut; a type that is none
      packet(good + number_field(5, 9), "x"),  // the attachment is longer than the rest
      packet(good + number_field(5, uint64_t(-1)), "x"),
      "PRPC" + size(1 << 30) + size(1 << 20)};
  for (const auto& bytes : bad) {
    codec_.reset();
    feed(ask("Slow", 1, "x"));  // under way: it is still answered
    feed(bytes);
    EXPECT_FALSE(codec().wants_read()) << bytes;
    EXPECT_FALSE(codec().finished());
    service_.slow.seen.rpc->send(base::Bytes::copy_of("y"));
    service_.slow.seen.rpc->finish({});
    EXPECT_EQ("y", replies()[1].message);
    EXPECT_TRUE(codec().finished());
  }
}

TEST_F(BaiduStd, AMessageThatIsTooLongIsRefusedBeforeItHasCome) {
  const std::string all = ask("Echo", 7, std::string(300, 'x'));
  const std::string meta = all.substr(12, size_at(all, 8));
  feed("PRPC" + size(meta.size() + (100 << 20)) + size(meta.size()) + meta + "x");
  EXPECT_EQ(2004u, replies()[7].error);  // ELIMIT
  EXPECT_TRUE(codec().finished());
  EXPECT_EQ(0, service_.echo.calls);
}

TEST_F(BaiduStd, RequestsBeyondTheLimitWaitWithThePeer) {
  limits_.streams = 2;
  std::string all;
  for (uint64_t id = 1; id <= 4; ++id) all += ask(id == 4 ? "Echo" : "Slow", id, "x");
  feed(all);
  EXPECT_EQ(2u, service_.slow.seen.log.size());
  EXPECT_FALSE(codec().wants_read());
  service_.slow.seen.rpc->finish({});
  EXPECT_TRUE(replies().contains(2));
  EXPECT_EQ(3u, std::count(service_.slow.seen.log.begin(), service_.slow.seen.log.end(), "unary:x"));
  service_.slow.seen.rpc->finish({});
  EXPECT_TRUE(replies().contains(3));
  EXPECT_TRUE(order_.back() == 4 || replies().contains(4));
  EXPECT_TRUE(codec().wants_read());
}

TEST_F(BaiduStd, SlowPeersAreCutOff) {
  feed("PRPC\0\0");
  pass(limits_.head + 2s);
  EXPECT_TRUE(codec().finished());

  codec_.reset();
  const std::string call = ask("Nope", 7, std::string(4000, 'x'));
  feed(std::string_view(call).substr(0, 200));  // refused at once: what follows is nobody's
  EXPECT_EQ(1002u, replies()[7].error);
  EXPECT_FALSE(codec().finished());
  pass(2 * limits_.grace + 2s);
  EXPECT_TRUE(codec().finished());

  codec_.reset();
  feed(ask("Echo", 7, std::string(100'000, 'x')));
  pass(2 * limits_.grace + 2s);  // it does not take its answer
  EXPECT_TRUE(codec().finished());
  EXPECT_TRUE(take_output(codec()).empty());

  codec_.reset();
  EXPECT_EQ("x", talk(ask("Echo", 7, "x")).message);
  pass(limits_.stream_idle);
  EXPECT_FALSE(codec().finished());
  pass(2s);
  EXPECT_TRUE(codec().finished());
}

TEST_F(BaiduStd, CallsEndWithTheirConnection) {
  feed(ask("Slow", 1, "x"));
  codec().closed();
  EXPECT_EQ("close", service_.slow.seen.log.back());
  EXPECT_TRUE(codec().finished());

  codec_.reset();
  feed(ask("Echo", 2, "kept") + ask("Slow", 3, "x"));
  codec().eof();
  EXPECT_EQ("close", service_.slow.seen.log.back());
  EXPECT_EQ("kept", replies()[2].message);
  EXPECT_TRUE(codec().finished());
}

TEST_F(BaiduStd, AServerThatEndsSaysSo) {
  feed(ask("Slow", 1, "x"));
  codec().drain(Drain::kAnnounce);
  EXPECT_EQ("y", talk(ask("Echo", 7, "y")).message);
  codec().drain(Drain::kRefuse);
  EXPECT_EQ(2003u, talk(ask("Echo", 7, "y")).error);  // ELOGOFF
  service_.slow.seen.rpc->finish({});
  EXPECT_TRUE(replies().contains(1));
}

TEST_F(BaiduStd, ALongMessageIsReadToItsSlab) {
  const std::string message(900'000, 'm'), all = ask("Echo", 7, message);
  codec().feed(std::as_bytes(std::span(all).first(100)));
  codec_ = codec().successor();
  const auto room = codec().landing();
  EXPECT_GT(room.size(), 4096u);
  feed(std::string_view(all).substr(100));
  EXPECT_EQ(message, replies()[7].message);
}

}  // namespace
}  // namespace weir::wire
