// A port that takes TLS only, met in cleartext.
#include "wire/tls_wanted.h"

#include "support/h2_client.h"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

struct Refusing : Server {
  Refusing() { codec = wire::make_tls_wanted(env.emplace(wire::CodecEnv{intake, slabs, limits}), wire, peer); }
};

TEST(TlsWanted, Http1IsToldByA400) {
  for (std::string head :
       {"GET /v2 HTTP/1.1\r\nHost: a\r\n", "POST /v2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"}) {
    Refusing s;
    s.feed(head + "\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    std::string out = s.take();
    EXPECT_TRUE(out.starts_with("HTTP/1.1 400 Bad Request\r\n")) << out;
    EXPECT_NE(out.find("connection: close\r\n"), std::string::npos);
    EXPECT_TRUE(out.ends_with("\r\n\r\nthis port takes TLS connections only\n"));
    EXPECT_TRUE(s.codec->finished());
    EXPECT_EQ(s.intake.rejections, std::vector<std::string>{"tls"});
    EXPECT_EQ(s.intake.begun, 0u);
  }
}

TEST(TlsWanted, Http2AndGrpcAreToldInTheirForm) {
  for (bool grpc : {false, true}) {
    Refusing s;
    Client c;
    int32_t id = c.request(grpc ? with(kPost, {{"content-type", "application/grpc"}}) : kPost, "body");
    c.talk(s, 1);
    EXPECT_EQ(c[id].status(), grpc ? "200" : "400");
    EXPECT_EQ(c[id].field("grpc-status"), grpc ? "16" : "");
    EXPECT_EQ(c[id].field("grpc-message"), grpc ? "this port takes TLS connections only" : "");
    EXPECT_EQ(c[id].body, grpc ? "" : "this port takes TLS connections only\n");
    EXPECT_TRUE(c[id].ended);
    ASSERT_FALSE(c.goaways.empty());
    EXPECT_EQ(c.goaways.back(), std::pair(id, uint32_t(NGHTTP2_NO_ERROR)));
    EXPECT_TRUE(s.codec->finished());
    EXPECT_EQ(s.intake.rejections, std::vector<std::string>{"tls"});
    EXPECT_EQ(s.intake.begun, 0u);
    s.codec->closed();
  }
}

TEST(TlsWanted, APeerThatDoesNotSayWhatItSpeaksIsClosed) {
  Refusing s;
  s.feed("PRI");
  s.advance(6s);
  EXPECT_EQ(s.take(), "");
  EXPECT_TRUE(s.codec->finished());
}

}  // namespace
}  // namespace weir::test
