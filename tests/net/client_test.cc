#include "net/client.h"

#include <gtest/gtest.h>

#include <thread>

#include "lab.h"
#include "tls_fixture.h"

namespace weir::net {
namespace {

// A server that gives one answer to everybody.
struct Canned : lab::Rig {
  explicit Canned(std::string answer) : Rig(lab::loopback()) {
    lab.canned = std::move(answer);
    EXPECT_TRUE(server->bind().ok());
    server->start();
  }
  Client client() { return Client(server->bound()[0], std::chrono::seconds(20)); }
};

TEST(Client, ReadsABodyByItsLength) {
  Canned rig("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello");
  auto reply = rig.client().request("GET", "/");
  ASSERT_TRUE(reply) << reply.error().text;
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->find("content-type"), "text/plain");
  EXPECT_EQ(reply->body, "hello");
}

TEST(Client, ReadsAChunkedBodyAndSkipsInformationalHeads) {
  Canned rig(
      "HTTP/1.1 100 Continue\r\n\r\n"
      "HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nwiki\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\n");
  auto reply = rig.client().request("POST", "/x", {{"X-Test", "1"}}, "body");
  ASSERT_TRUE(reply) << reply.error().text;
  EXPECT_EQ(reply->status, 503);
  EXPECT_EQ(reply->body, "wiki0123456789");
}

TEST(Client, ReadsABodyToTheEndOfTheConnection) {
  Canned rig("HTTP/1.0 200 OK\r\n\r\nall of it");
  auto reply = rig.client().request("GET", "/");
  ASSERT_TRUE(reply) << reply.error().text;
  EXPECT_EQ(reply->body, "all of it");
}

TEST(Client, AHeadRequestHasNoBody) {
  Canned rig("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
  auto reply = rig.client().request("HEAD", "/");
  ASSERT_TRUE(reply) << reply.error().text;
  EXPECT_EQ(reply->body, "");
}

TEST(Client, AnAnswerThatIsCutShortOrNotHttpIsAnError) {
  {
    Canned rig("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello");
    EXPECT_EQ(rig.client().request("GET", "/").error().code, base::Code::kUnavailable);
  }
  {
    Canned rig("SSH-2.0-x\r\n\r\n");
    EXPECT_EQ(rig.client().request("GET", "/").error().code, base::Code::kInternal);
  }
  {
    Canned rig("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    EXPECT_EQ(rig.client().request("GET", "/").error().code, base::Code::kInternal);
  }
}

TEST(Client, NobodyThereIsUnavailable) {
  uint16_t port;
  {
    Canned rig("x");
    port = rig.port();
  }
  Client client("http://127.0.0.1:" + std::to_string(port) + "/", std::chrono::seconds(5));
  auto reply = client.request("GET", "/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, base::Code::kUnavailable);
  EXPECT_NE(reply.error().text.find("127.0.0.1"), std::string::npos);
}

TEST(Client, ASilentServerIsADeadlineExceeded) {
  lab::Rig rig;
  ASSERT_TRUE(rig.server->bind().ok());  // listens, but is never started
  Client client(rig.server->bound()[0], std::chrono::milliseconds(50));
  EXPECT_EQ(client.request("GET", "/").error().code, base::Code::kDeadlineExceeded);
}

TEST(Client, AnAnswerThatIsLargerThanWantedIsRefusedWhateverItsFraming) {
  const std::string body(3000, 'x');
  for (const std::string& head : {std::string("Content-Length: 3000\r\n\r\n"),
                                  std::string("Transfer-Encoding: chunked\r\n\r\nbb8\r\n"), std::string("\r\n")}) {
    Canned rig("HTTP/1.1 200 OK\r\n" + head + body);
    Client client(rig.server->bound()[0], Client::Options{.timeout = std::chrono::seconds(20), .largest_reply = 300});
    EXPECT_EQ(client.request("GET", "/").error().code, base::Code::kResourceExhausted) << head;
  }
}

TEST(Client, AnInterruptEndsARequestAndAllThatFollow) {
  lab::Rig rig(lab::loopback());
  ASSERT_TRUE(rig.server->bind().ok());  // listens, but is never started
  Interrupt interrupt;
  Client client(rig.server->bound()[0],
                Client::Options{.timeout = std::chrono::hours(1), .tls = nullptr, .interrupt = &interrupt});
  std::thread other([&] { interrupt.raise(); });
  EXPECT_EQ(client.request("GET", "/").error().code, base::Code::kCancelled);
  other.join();
  EXPECT_EQ(client.request("GET", "/").error().code, base::Code::kCancelled);
}

TEST(Client, SpeaksTlsToWhoCanProveItsName) {
  CertificateFiles files;
  ServerOptions options = lab::loopback();
  options.tls = files.options();
  lab::Rig rig(options);
  rig.lab.canned = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + std::string(100000, 'y');
  ASSERT_TRUE(rig.server->bind().ok());
  rig.server->start();
  auto ask = [&](const std::string& ca_file, const std::string& host) {
    Client::Options how{.timeout = std::chrono::seconds(20)};
    how.tls = *TlsContext::for_client(ca_file), how.tls_host = host;
    return Client(rig.server->bound()[0], how).request("POST", "/", {}, std::string(100000, 'x'));
  };
  auto reply = ask(files.certificate(), "localhost");
  ASSERT_TRUE(reply) << reply.error().text;
  EXPECT_EQ(reply->body, std::string(100000, 'y'));
  for (const auto& wrong : {ask("", "localhost"), ask(files.certificate(), "other.example")}) {
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().code, base::Code::kUnavailable);
    EXPECT_TRUE(wrong.error().text.starts_with("TLS failed: ")) << wrong.error().text;
  }
}

TEST(Client, SpeaksOverAUnixSocket) {
  ServerOptions options;
  std::string path = "/tmp/weir-client-" + std::to_string(::getpid()) + ".sock";
  options.listen = {{"unix:" + path}};
  lab::Rig rig(options);
  rig.lab.canned = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  ASSERT_TRUE(rig.server->bind().ok());
  rig.server->start();
  auto reply = Client("unix:" + path, std::chrono::seconds(20)).request("GET", "/");
  ASSERT_TRUE(reply) << reply.error().text;
  EXPECT_EQ(reply->body, "ok");
}

TEST(Client, AStreamIsHandedOnInPiecesUntilNobodyWantsMore) {
  Canned rig("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
  std::string got;
  auto reply = rig.client().stream("GET", "/", {}, {}, [&](std::string_view piece) {
    got += piece;
    return true;
  });
  ASSERT_TRUE(reply) << reply.error().text;
  EXPECT_EQ(got, "onetwo");
  EXPECT_EQ(reply->body, "");
  got.clear();
  reply = rig.client().stream("GET", "/", {}, {}, [&](std::string_view piece) {
    got += piece;
    return false;
  });
  ASSERT_TRUE(reply) << reply.error().text;
  EXPECT_EQ(got, "one");
}

TEST(Client, TheBodyOfARefusalIsNoPartOfAStream) {
  Canned rig("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno");
  auto reply = rig.client().stream("GET", "/", {}, {}, [](std::string_view) {
    ADD_FAILURE() << "a refusal";
    return false;
  });
  ASSERT_TRUE(reply) << reply.error().text;
  EXPECT_EQ(reply->body, "no");
}

TEST(Client, HeadsWithoutAnEndAreRefused) {
  Canned rig("HTTP/1.1 200 OK\r\nX: " + std::string(200'000, 'x'));
  auto reply = rig.client().request("GET", "/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().text, "the answer is not HTTP/1.1: a head or a line is too long");
}

}  // namespace
}  // namespace weir::net
