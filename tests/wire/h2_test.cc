// HTTP/2: requests and what becomes of them.
#include "support/h2_client.h"
#include "support/h2_service.h"
#include "support/split_feed.h"
#include "wire/date.h"

namespace weir::test {
namespace {

using base::Bytes;
using support::Heard;
using support::RecordingReader;
using wire::Exchange;
using namespace std::chrono_literals;

TEST(H2, ARequestIsAnExchangeAndAnAnswer) {
  Server s;
  Client c;
  int32_t id = c.request(with(kPost, {{"content-type", "text/plain"}, {"te", "trailers"}}), "hello");
  c.talk(s);
  ASSERT_EQ(s.intake.seen.size(), 1u);
  const auto& seen = s.intake.seen[0];
  EXPECT_EQ(seen.method, "POST");
  EXPECT_EQ(seen.target, "/p");
  EXPECT_EQ(seen.authority, "h");
  EXPECT_EQ(seen.body, "hello");
  EXPECT_EQ(seen.content_length, -1);
  EXPECT_EQ(seen.fields, (Headers{{"content-type", "text/plain"}, {"te", "trailers"}}));
  EXPECT_EQ(c[id].status(), "200");
  EXPECT_EQ(c[id].field("content-length"), "2");
  EXPECT_EQ(c[id].body, "ok");
  EXPECT_TRUE(c[id].ended);
  EXPECT_FALSE(c[id].reset);
  EXPECT_EQ(s.intake.closes, 1u);
  EXPECT_TRUE(s.codec->idle());
  EXPECT_FALSE(s.codec->finished());
}

// RFC 9113 §8.2.1 calls such a request malformed. gRPC clients send what their callers put there, and strip nothing.
TEST(H2, SpacesAroundAValueAreNoPartOfIt) {
  Server s;
  Client c;
  int32_t id =
      c.request(with(kPost, {{"note", "ends with a space "}, {"tabbed", "\t x \t"}, {"empty", "  "}}), "hello");
  c.talk(s);
  ASSERT_EQ(s.intake.seen.size(), 1u);
  EXPECT_EQ(s.intake.seen[0].fields, (Headers{{"note", "ends with a space"}, {"tabbed", "x"}, {"empty", ""}}));
  EXPECT_EQ(c[id].status(), "200");
}

TEST(H2, AnySplitOfTheBytesGivesTheSameExchanges) {
  Client c;
  for (int i = 0; i < 3; ++i)
    c.request(with(kPost, {{"content-type", "text/plain"}, {"cookie", "a=1"}, {"cookie", "b=2"}}),
              text_of(300u * i + 7));
  c.request(kGet);
  std::string up = c.output();
  std::string expected;
  support::for_each_split(up, [&](size_t size) {
    Server s;
    std::string down;
    support::feed_in_pieces(up, size, [&](auto piece) { s.codec->feed(piece); });
    ASSERT_EQ(s.intake.seen.size(), 4u) << size;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(s.intake.seen[i].body, text_of(300u * i + 7)) << size;
    EXPECT_EQ(s.intake.seen[0].fields, (Headers{{"content-type", "text/plain"}, {"cookie", "a=1; b=2"}}));
    down = s.take();
    if (expected.empty()) expected = down;
    EXPECT_EQ(down, expected) << size;
    EXPECT_EQ(s.intake.closes, 4u);
  });
}

TEST(H2, OneTurnsAnswersGoOutInOneWrite) {
  Server s;
  Client c;
  c.talk(s);
  s.intake.on_whole = [](Exchange& x) {
    wire::Response r;
    r.fields.add("content-type", "application/grpc");
    x.head(std::move(r));
    x.body(Bytes::copy_of("message"));
    wire::Fields trailers;
    trailers.add("grpc-status", "0");
    x.end(std::move(trailers));
  };
  std::vector<int32_t> ids;
  for (int i = 0; i < 30; ++i) ids.push_back(c.request(kPost, "body"));
  s.feed(c.output());
  std::array<iovec, 64> pieces;
  size_t n = s.codec->pending(pieces);
  EXPECT_EQ(n, 1u);  // all of it is small: one stretch of memory
  c.input(s.write_once());
  for (int32_t id : ids) {
    EXPECT_EQ(c[id].body, "message");
    EXPECT_EQ(c[id].trailer("grpc-status"), "0");
    EXPECT_TRUE(c[id].ended);
  }
  EXPECT_EQ(s.intake.closes, 30u);
  EXPECT_EQ(s.codec->pending(pieces), 0u);
}

TEST(H2, TrailersOnlyIsOneHeadersFrame) {
  Server s;
  s.intake.on_whole = [](Exchange& x) {
    wire::Response r;
    r.fields.add("grpc-status", "12");
    x.head(std::move(r));
    x.end();
  };
  s.feed(opening());
  s.take();
  s.feed(get(1));
  auto frames = frames_of(s.take());
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].type, 1);
  EXPECT_EQ(frames[0].flags, kEndHeaders | kEndStream);
}

TEST(H2, TrailersWithoutABodyNeedNoDataFrame) {
  Server s;
  s.intake.on_whole = [](Exchange& x) {
    x.head({});
    wire::Fields trailers;
    trailers.add("grpc-status", "0");
    x.end(std::move(trailers));
  };
  Client c;
  int32_t id = c.request(kGet);
  c.talk(s);
  EXPECT_EQ(c[id].trailer("grpc-status"), "0");
  EXPECT_TRUE(c[id].ended);
}

TEST(H2, HeadAndBodilessStatusesHaveNoBody) {
  Server s;
  Client c;
  int32_t head = c.request({{":method", "HEAD"}, {":scheme", "http"}, {":path", "/"}, {":authority", "h"}});
  c.talk(s);
  EXPECT_EQ(c[head].field("content-length"), "2");
  EXPECT_EQ(c[head].body, "");
  EXPECT_TRUE(c[head].ended);
  for (int status : {204, 304}) {
    s.intake.on_whole = [=](Exchange& x) {
      wire::Response r;
      r.status = status;
      x.head(std::move(r));
      x.body(Bytes::copy_of("no"));
      x.end();
    };
    int32_t id = c.request(kGet);
    c.talk(s);
    EXPECT_EQ(c[id].status(), std::to_string(status));
    EXPECT_EQ(c[id].body, "");
    EXPECT_TRUE(c[id].ended);
  }
}

TEST(H2, ConnectionFieldsOfAServiceAreLeftOutAndStandingOnesPutIn) {
  Server s;
  s.intake.on_begin = [](Exchange& x) {
    x.extra_fields().add("x-request-id", "7");
    return wire::Plan{};
  };
  s.intake.on_whole = [](Exchange& x) {
    wire::Response r;
    r.fields.add("connection", "close");
    r.fields.add("transfer-encoding", "chunked");
    r.fields.add("x-kept", "1");
    x.respond(std::move(r), Bytes::copy_of("b"));
  };
  Client c;
  int32_t id = c.request(kGet);
  c.talk(s);
  EXPECT_EQ(c[id].head, (Headers{{":status", "200"}, {"x-kept", "1"}, {"content-length", "1"}, {"x-request-id", "7"}}));
}

TEST(H2, HostStandsInForAuthorityAndMustNotContradictIt) {
  Server s;
  Client c;
  c.request({{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {"host", "one"}});
  int32_t bad = c.request(with(kGet, {{"host", "other"}}));
  int32_t same = c.request(with(kGet, {{"host", "H"}}));
  c.talk(s);
  EXPECT_EQ(s.intake.seen[0].authority, "one");
  EXPECT_TRUE(s.intake.seen[0].fields.empty());
  EXPECT_EQ(c[bad].status(), "400");
  EXPECT_EQ(c[same].status(), "200");
  EXPECT_EQ(s.intake.rejections, std::vector<std::string>{"host"});
}

// As HTTP/1's Host: what a list of hosts or a log line could take for something else is refused.
TEST(H2, AuthorityIsOfTheCharactersOfAHost) {
  Server s;
  Client c;
  std::map<int32_t, std::string> asked;
  auto ask = [&](const Headers& fields, std::string_view status) { asked[c.request(fields)] = status; };
  for (const char* bad : {"a/b", "a?b", "a#b", "u@a", "a\\b", "a,b", "a b", "a\x80"}) {
    ask({{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", bad}}, "400");
    ask({{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {"host", bad}}, "400");
  }
  for (const char* good : {"a", "a:1", "[::1]:80", "a-b_c.d~e%20"})
    ask({{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", good}}, "200");
  c.talk(s);
  for (const auto& [id, status] : asked)
    if (!c[id].reset || status == "200") {
      EXPECT_EQ(c[id].status(), status) << id;  // the library resets what is no field value
    }
  EXPECT_EQ(s.intake.begun, 4u);
}

TEST(H2, ResponsesSayWhenTheyWereMadeButGrpcs) {
  Server s;
  wire::HttpDate date(s.wire.env);
  s.restart({s.intake, s.slabs, s.limits, &date});
  Client c;
  int32_t first = c.request(kGet), grpc = c.request(with(kPost, {{"content-type", "application/grpc"}}));
  c.talk(s);
  s.wire.env.advance(1s);
  int32_t second = c.request(kGet), third = c.request(kGet);
  c.talk(s);
  EXPECT_EQ(c[first].field("date"), "Tue, 14 Nov 2023 22:30:00 GMT");
  EXPECT_EQ(c[second].field("date"), "Tue, 14 Nov 2023 22:30:01 GMT");
  EXPECT_EQ(c[third].field("date"), "Tue, 14 Nov 2023 22:30:01 GMT");
  EXPECT_EQ(c[grpc].status(), "200");
  EXPECT_EQ(c[grpc].field("date"), "");
}

TEST(H2, ConnectIsForWebSocketsOnly) {
  Server s;
  Client c;
  auto connect = [&](const Headers& more) { return c.request(with({{":method", "CONNECT"}}, more)); };
  const Headers place{{":scheme", "http"}, {":path", "/"}, {":authority", "h"}};
  int32_t websocket = connect(with({{":protocol", "websocket"}}, place));
  int32_t tunnel = connect(with({{":protocol", "connect-udp"}}, place));
  int32_t plain = connect({{":authority", "h:443"}});
  c.talk(s);
  EXPECT_EQ(c[tunnel].status(), "501");
  EXPECT_EQ(c[plain].status(), "501");
  ASSERT_EQ(s.intake.begun, 1u);
  EXPECT_EQ(s.intake.seen[0].method, "GET");
  EXPECT_EQ(s.intake.seen[0].fields[0], std::pair(std::string("upgrade"), std::string("websocket")));
  EXPECT_FALSE(c[websocket].reset);
}

TEST(H2, AStreamedBodyComesInPiecesAndEnds) {
  Streamed streamed;
  Server s;
  streamed.serve(s);
  Client c;
  int32_t id = c.request(kPost, "one", true);
  c.talk(s);
  Exchange& x = *streamed.order.at(0);
  Heard& heard = streamed.heard[&x];
  EXPECT_EQ(heard.data, "one");
  x.head({});
  x.body(Bytes::copy_of("first"));
  EXPECT_GT(s.wire.output_calls, 0);
  c.talk(s);
  EXPECT_EQ(c[id].body, "first");
  c.more(id, "two", true);
  c.talk(s);
  EXPECT_EQ(heard.data, "onetwo");
  EXPECT_EQ(heard.ends, 1);
  x.body(Bytes::copy_of("second"));
  x.end();
  c.talk(s);
  EXPECT_EQ(c[id].body, "firstsecond");
  EXPECT_TRUE(c[id].ended);
  EXPECT_EQ(heard.closes, 1);
  EXPECT_TRUE(heard.complete);
  EXPECT_EQ(s.intake.closes, 1u);
}

TEST(H2, ExpectContinueIsAnsweredBeforeTheBody) {
  Server s;
  Client c;
  int32_t id = c.request(with(kPost, {{"expect", "100-continue"}}), "", true);
  c.talk(s);
  EXPECT_EQ(c[id].informational.size(), 1u);
  c.more(id, "x", true);
  c.talk(s);
  EXPECT_EQ(c[id].status(), "200");
}

// The first block behind the change says so (RFC 7541 §4.2): decoders refuse another.
TEST(H2, AnInterimHeadSaysThatTheClientsTableIsSmaller) {
  Server s;
  Client c;
  const nghttp2_settings_entry none{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0};
  nghttp2_submit_settings(c.session, 0, &none, 1);
  for (int i = 0; i < 4; ++i) {
    int32_t id = c.request(with(kPost, {{"expect", "100-continue"}}), "", true);
    c.talk(s);
    EXPECT_EQ(c[id].informational.size(), 1u);
    c.more(id, "x", true);
    c.talk(s);
    EXPECT_EQ(c[id].status(), "200");
  }
  EXPECT_TRUE(c.output().empty()) << "no GOAWAY";
}

TEST(H2, ARequestWithoutABodyIsNotToldToGoOn) {
  Server s;
  Client c;
  int32_t id = c.request(with(kPost, {{"expect", "100-continue"}}));
  c.talk(s);
  EXPECT_TRUE(c[id].informational.empty());
  EXPECT_EQ(c[id].status(), "200");
}

TEST(H2, LedgerKnowsSizesStatusAndBeginning) {
  Server s;
  wire::RequestRecord ledger;
  s.intake.on_closed = [&](Exchange& x) { ledger = std::move(x.record()); };
  Client c;
  c.request(kPost, text_of(1000));
  c.talk(s);
  EXPECT_EQ(ledger.bytes_in, 1000u);
  EXPECT_EQ(ledger.bytes_out, 2u);
  EXPECT_EQ(ledger.status, 200);
  EXPECT_EQ(ledger.began, s.wire.now());
}

}  // namespace
}  // namespace weir::test
