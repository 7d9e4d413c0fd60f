// Header blocks that come again are not decoded again, and answers' not encoded: both sides must see the same fields as
// ever, whatever the dynamic tables do in between.
#include <functional>
#include <random>

#include "support/h2_client.h"
#include "wire/h2_block_cache.h"
#include "wire/h2_head_cache.h"

namespace weir::test {
namespace {

using base::Bytes;
using wire::Exchange;

// Fields in the order of Seen: pseudo fields apart.
Headers fields_of(const Headers& head) {
  Headers out;
  for (const auto& field : head)
    if (field.first[0] != ':') out.push_back(field);
  return out;
}
std::string text_in(const Headers& head, std::string_view name) { return Answer::find(head, name); }

void expect_seen(const support::FakeIntake::Seen& seen, const Headers& head) {
  EXPECT_EQ(seen.method, text_in(head, ":method"));
  EXPECT_EQ(seen.target, text_in(head, ":path"));
  EXPECT_EQ(seen.authority, text_in(head, ":authority"));
  EXPECT_EQ(seen.fields, fields_of(head));
}

const Headers kCall = with({{":method", "POST"}, {":scheme", "http"}, {":path", "/a.B/C"}, {":authority", "host:1"}},
                           {{"te", "trailers"}, {"content-type", "application/grpc"}, {"x-key", "one"}});

// Answers a request with its own x-answer, if it has one.
void answer_as_grpc(Exchange& x) {
  const auto wish = std::string(x.request().fields.find("x-answer"));
  wire::Response r;
  r.fields.add("content-type", "application/grpc");
  if (!wish.empty()) r.fields.add("x-answer", wish);
  x.head(std::move(r));
  if (wish != "empty") x.body(Bytes::copy_of("message of " + wish));
  wire::Fields trailers;
  trailers.add("grpc-status", wish == "failed" ? "3" : "0");
  if (wish == "failed") trailers.add("grpc-message", "of " + std::string(x.request().target));
  x.end(std::move(trailers));
}

TEST(H2HeadCache, EachRequestIsSeenAsTheFirstWas) {
  Server s;
  Client c;
  s.intake.on_whole = answer_as_grpc;
  for (int i = 0; i < 12; ++i) {
    const int32_t id = c.request(kCall, "body " + std::to_string(i));
    c.talk(s);
    ASSERT_EQ(s.intake.seen.size(), size_t(i) + 1);
    expect_seen(s.intake.seen.back(), kCall);
    EXPECT_EQ(s.intake.seen.back().body, "body " + std::to_string(i));
    EXPECT_EQ(c[id].head, (Headers{{":status", "200"}, {"content-type", "application/grpc"}}));
    EXPECT_EQ(c[id].body, "message of ");
    EXPECT_EQ(c[id].trailers, (Headers{{"grpc-status", "0"}}));
    EXPECT_TRUE(c[id].ended);
  }
  EXPECT_TRUE(s.codec->idle());
  EXPECT_EQ(s.intake.closes, 12u);
}

// A known answer's trailers follow its DATA without another look at the library: the frames are those of any gRPC
// answer.
TEST(H2HeadCache, TheFramesOfAKnownAnswerAreThoseOfAnyOther) {
  Server s;
  Client c;
  s.intake.on_whole = answer_as_grpc;
  std::string down;
  for (int i = 0; i < 6; ++i) {
    c.request(kCall, "body");
    s.feed(c.output());
    c.input(down = s.take());
  }
  auto frames = frames_of(down);
  std::erase_if(frames, [](const Frame& f) { return f.stream == 0; });
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].type, 1);
  EXPECT_EQ(frames[0].flags, kEndHeaders);
  EXPECT_EQ(frames[0].payload.size(), 2u);  // both indexed
  EXPECT_EQ(frames[1].type, 0);
  EXPECT_EQ(frames[1].flags, 0);
  EXPECT_EQ(frames[2].type, 1);
  EXPECT_EQ(frames[2].flags, kEndHeaders | kEndStream);
  EXPECT_EQ(frames[2].payload.size(), 1u);
}

TEST(H2HeadCache, ALengthIsStillComparedWithTheBody) {
  Server s;
  Client c;
  const auto head = with(kPost, {{"content-length", "4"}});
  for (int i = 0; i < 5; ++i) c.request(head, "body"), c.talk(s);
  const int32_t longer = c.request(head, "bodies"), shorter = c.request(head, "bo"), right = c.request(head, "body");
  c.talk(s);
  EXPECT_TRUE(c[longer].reset);
  EXPECT_TRUE(c[shorter].reset);
  EXPECT_EQ(c[right].status(), "200");
  EXPECT_EQ(s.intake.closes, s.intake.begun);
}

TEST(H2HeadCache, WhatTheLibraryActsOnIsNotReplaced) {
  for (const Headers& head :
       {with(kPost, {{"expect", "100-continue"}}), with(kPost, {{"priority", "u=1, i"}}),
        Headers{{":method", "HEAD"}, {":scheme", "http"}, {":path", "/"}, {":authority", "h"}},
        Headers{{":method", "OPTIONS"}, {":scheme", "https"}, {":path", "*"}, {":authority", "h"}}}) {
    Server s;
    Client c;
    const bool body = text_in(head, ":method") == "POST";
    for (int i = 0; i < 6; ++i) {
      const int32_t id = c.request(head, body ? "body" : "");
      c.talk(s);
      expect_seen(s.intake.seen.back(), head);
      EXPECT_EQ(c[id].informational.size(), text_in(head, "expect").empty() ? 0u : 1u);
      EXPECT_TRUE(c[id].ended);
    }
  }
}

// The same bytes mean another head once the table has changed: in the same frame, in two, or in one with padding.
TEST(H2HeadCache, TheSameBlockAfterTheTableHasChanged) {
  const std::string request("\x83\x86\x84\x01\x01h", 6), first = request + '\xbe';  // the youngest field of the table
  auto added = [&](char value) { return request + "\x40\x01x\x01" + value; };
  for (int form = 0; form < 3; ++form) {
    Server s;
    s.feed(opening());
    uint32_t id = 1;
    for (char value : {'a', 'b', 'c'}) {
      const std::string block = added(value);
      if (form == 0) s.feed(frame(1, kEndHeaders | kEndStream, id, block));
      if (form == 1) s.feed(frame(1, kEndStream, id, block.substr(0, 8)) + frame(9, kEndHeaders, id, block.substr(8)));
      if (form == 2) s.feed(frame(1, kEndHeaders | kEndStream | kPadded, id, '\1' + block + '\0'));
      for (int i = 0; i < 5; ++i) s.feed(frame(1, kEndHeaders | kEndStream, id += 2, first)), s.take();
      id += 2;
      ASSERT_GE(s.intake.seen.size(), 6u);
      for (size_t i = s.intake.seen.size() - 6; i < s.intake.seen.size(); ++i)
        EXPECT_EQ(s.intake.seen[i].fields, (Headers{{"x", std::string(1, value)}})) << form;
    }
  }
}

// The server's answer to `frames`, on a connection that has had `known` heads of the same block before.
std::vector<Frame> answer_to(int known, const std::function<std::string(uint32_t)>& frames) {
  wire::Limits limits;
  limits.streams = 2;
  Server s(limits);
  s.feed(opening());
  s.take();
  uint32_t id = 1;
  for (int i = 0; i < known; ++i, id += 2) s.feed(frame(1, kEndHeaders | kEndStream, id, block(kPost))), s.take();
  s.feed(frames(id));
  auto out = frames_of(s.take());
  for (Frame& f : out) f.stream -= f.stream ? id : 0;
  EXPECT_EQ(s.intake.begun, s.intake.closes + s.intake.open.size());
  return out;
}
void expect_same(const std::function<std::string(uint32_t)>& frames) {
  const auto unknown = answer_to(1, frames), known = answer_to(7, frames);
  ASSERT_FALSE(unknown.empty());
  ASSERT_EQ(unknown.size(), known.size());
  for (size_t i = 0; i < known.size(); ++i) {
    EXPECT_EQ(unknown[i].type, known[i].type);
    EXPECT_EQ(unknown[i].flags, known[i].flags);
    EXPECT_EQ(unknown[i].stream, known[i].stream);
    if (known[i].type == 3) {
      EXPECT_EQ(unknown[i].payload, known[i].payload);
    }
  }
}

TEST(H2HeadCache, MoreStreamsThanMayBeOpen) {
  expect_same([](uint32_t id) {
    std::string all;
    for (uint32_t i = id; i < id + 10; i += 2) all += frame(1, kEndHeaders, i, block(kPost));
    return all;
  });
}

// A field without a name, one in capitals, one about the connection, and a length that is not the body's.
TEST(H2HeadCache, AMalformedHeadIsNeverKnown) {
  const std::string request("\x83\x86\x84\x01\x01h", 6);
  for (const std::string& field :
       {std::string("\0\0\x01x", 4), std::string("\0\x01X\x01x", 5), std::string("\0\x07upgrade\x01x", 11),
        std::string("\x0f\x0d\x01"
                    "5",
                    4)}) {
    Server s;
    s.feed(opening());
    s.take();
    for (uint32_t id = 1; id < 12; id += 2) {
      s.feed(frame(1, kEndHeaders | kEndStream, id, request + field));
      const auto frames = frames_of(s.take());
      ASSERT_EQ(frames.size(), 1u);
      EXPECT_EQ(frames[0].type, 3);
      EXPECT_EQ(frames[0].payload, u32(1));
    }
    s.feed(frame(1, kEndHeaders | kEndStream, 13, request));
    EXPECT_EQ(s.intake.begun, 1u);
    EXPECT_EQ(s.intake.closes, 0u);
  }
}

TEST(H2HeadCache, AsTrailersAKnownHeadIsAnErrorAsEver) {
  expect_same([](uint32_t id) {
    return frame(1, kEndHeaders, id, block(kPost)) + frame(1, kEndHeaders | kEndStream, id, block(kPost));
  });
}

TEST(H2HeadCache, OnAStreamOfThePastOrOfTheServer) {
  expect_same([](uint32_t id) { return get(id + 4) + frame(1, kEndHeaders | kEndStream, id, block(kPost)); });
  expect_same([](uint32_t) { return frame(1, kEndHeaders | kEndStream, 2, block(kPost)); });
  expect_same([](uint32_t) { return frame(1, kEndHeaders | kEndStream, 0, block(kPost)); });
}

TEST(H2HeadCache, AnIdleConnectionForgets) {
  Server s;
  Client c;
  s.intake.on_whole = answer_as_grpc;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 5; ++i) {
      const int32_t id = c.request(kCall, "body");
      c.talk(s);
      expect_seen(s.intake.seen.back(), kCall);
      EXPECT_EQ(c[id].trailer("grpc-status"), "0");
    }
    s.advance(std::chrono::seconds(5));
  }
}

// A client that encodes as it likes (nghttp2 with a table of any size), heads and answers that come again or do not,
// many at a time, in pieces of any size, and a client that changes the server's table.
TEST(H2HeadCache, BothSidesSeeWhatWasSentWhateverTheTablesDo) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    std::mt19937 random(seed);
    auto pick = [&](uint32_t n) { return random() % n; };
    Server s;
    Client c;
    s.intake.on_whole = answer_as_grpc;
    constexpr std::array kWishes{"", "", "", "empty", "failed", "other", "again"};
    for (int round = 0; round < 60; ++round) {
      s.wire.env.advance(std::chrono::seconds(1));  // for SETTINGS without end
      std::vector<std::pair<int32_t, Headers>> sent;
      for (uint32_t n = 1 + pick(5); n > 0; --n) {
        Headers head = kCall;
        if (pick(3) == 0) head[2].second = "/a.B/" + std::to_string(pick(6));
        if (pick(3) == 0) head.emplace_back("x-key-" + std::to_string(pick(3)), std::string(pick(200), 'v'));
        if (const std::string wish = kWishes[pick(kWishes.size())]; !wish.empty()) head.emplace_back("x-answer", wish);
        sent.emplace_back(c.request(head, "body"), head);
      }
      if (pick(8) == 0) {
        const std::array<uint32_t, 5> sizes{0, 64, 200, 4096, 65536};
        nghttp2_settings_entry table{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, sizes[pick(sizes.size())]};
        nghttp2_submit_settings(c.session, 0, &table, 1);
      }
      const size_t before = s.intake.seen.size();
      c.talk(s, std::array<size_t, 4>{0, 1, 7, 100}[pick(4)], pick(3) ? 0 : 50);
      ASSERT_EQ(s.intake.seen.size(), before + sent.size()) << seed;
      for (size_t i = 0; i < sent.size(); ++i) {
        const auto& [id, head] = sent[i];
        expect_seen(s.intake.seen[before + i], head);
        const std::string wish = text_in(head, "x-answer");
        EXPECT_EQ(c[id].field("content-type"), "application/grpc");
        EXPECT_EQ(c[id].field("x-answer"), wish);
        EXPECT_EQ(c[id].body, wish == "empty" ? "" : "message of " + wish);
        EXPECT_EQ(c[id].trailer("grpc-status"), wish == "failed" ? "3" : "0");
        EXPECT_EQ(c[id].trailer("grpc-message"), wish == "failed" ? "of " + text_in(head, ":path") : "");
        EXPECT_TRUE(c[id].ended);
      }
      ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
      c.answers.clear();
    }
    EXPECT_TRUE(c.goaways.empty());
  }
}

// Answers that were submitted with a known head and are written after the table has changed.
TEST(H2HeadCache, AKnownAnswerBehindOneThatChangesTheTable) {
  Server s;
  Client c;
  s.intake.on_whole = answer_as_grpc;
  for (int i = 0; i < 4; ++i) c.request(kCall, "body"), c.talk(s);
  for (int i = 0; i < 20; ++i) {
    s.advance(std::chrono::milliseconds(500));
    const std::string wish = "new " + std::to_string(i);
    const int32_t first = c.request(with(kCall, {{"x-answer", wish}}), "body"), second = c.request(kCall, "body"),
                  third = c.request(with(kCall, {{"x-answer", "failed"}}), "body");
    nghttp2_settings_entry table{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, i % 3 == 0 ? 0u : 4096u};
    if (i % 2) nghttp2_submit_settings(c.session, 0, &table, 1);
    c.talk(s);
    EXPECT_EQ(c[first].field("x-answer"), wish);
    EXPECT_EQ(c[second].head, (Headers{{":status", "200"}, {"content-type", "application/grpc"}}));
    EXPECT_EQ(c[second].trailers, (Headers{{"grpc-status", "0"}}));
    EXPECT_EQ(c[third].trailer("grpc-status"), "3");
  }
}

TEST(H2HeadCache, WhichBlocksLeaveTheTable) {
  using wire::leaves_table;
  EXPECT_TRUE(leaves_table(""));
  EXPECT_TRUE(leaves_table("\x82\x86\x84"));
  EXPECT_TRUE(leaves_table(std::string("\x00\x01x\x01y", 5)));
  EXPECT_TRUE(leaves_table(std::string("\x10\x01x\x00", 4)));  // never indexed
  EXPECT_TRUE(leaves_table("\x04\x82zz"));                     // Huffman's code
  EXPECT_TRUE(leaves_table("\xff\x80\x01"));                   // index 255
  EXPECT_FALSE(leaves_table("\x40\x01x\x01y"));
  EXPECT_FALSE(leaves_table("\x82\x41\x01y"));
  EXPECT_FALSE(leaves_table("\x20\x82"));
  EXPECT_FALSE(leaves_table("\x3f\xe1\x1f"));
  EXPECT_FALSE(leaves_table("\x04\x05zz"));  // cut off
  EXPECT_FALSE(leaves_table("\x04"));
  EXPECT_FALSE(leaves_table("\xff"));
  EXPECT_FALSE(leaves_table("\xff\x80\x80\x80\x80\x80\x01"));
}

TEST(H2HeadCache, NoHeadHasTheIdOfOneThatWasDropped) {
  uint64_t ids = 0;
  wire::Request request;
  request.method = "POST", request.target = "/", request.authority = "h";
  for (uint64_t id = 1; id < 4; ++id) {
    wire::H2HeadCache cache(ids);
    cache.learn("\x83", request, {});
    EXPECT_EQ(cache.find("\x83")->id, id);
  }
}

TEST(H2HeadCache, HeadsThatAreKeptAreBounded) {
  uint64_t ids = 0;
  wire::H2HeadCache cache(ids);
  wire::Request request;
  request.method = "POST", request.target = "/", request.authority = "h";
  for (int i = 0; i < 100; ++i) {
    const std::string block = "\x04\x03/" + std::to_string(10 + i % 90);
    EXPECT_FALSE(cache.is_worth_learning(block));
    EXPECT_TRUE(cache.is_worth_learning(block));
    cache.learn(block, request, {});
    EXPECT_NE(cache.find(block), nullptr);
    EXPECT_LT(cache.bytes(), 8000u);
  }
  request.fields.add("x", std::string(3000, 'x'));
  cache.learn("\x83", request, {});
  EXPECT_EQ(cache.find("\x83"), nullptr);
  EXPECT_FALSE(cache.is_worth_learning("\x40\x01x\x01y"));
  EXPECT_EQ(cache.find("\x04\x03/99"), nullptr);
  const std::string large = "\x04\x7f\xff\x03" + std::string(127 + 511, 'x');
  EXPECT_TRUE(wire::leaves_table(large));
  EXPECT_FALSE(cache.is_worth_learning(large));
  EXPECT_FALSE(cache.is_worth_learning(large));
}

}  // namespace
}  // namespace weir::test
