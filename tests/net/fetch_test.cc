// The fetcher against servers on loopback that misbehave.
#include "net/fetch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <future>

#include "lab.h"

namespace weir::net {
namespace {

using base::Code;
using lab::Peer;

const char* const kHello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

// Answers with the next of its scripted answers each time; the last one stays.
class Script final : public Resolver {
 public:
  Script(Shard& shard, std::vector<std::vector<std::string>> answers, std::atomic<int>& asked)
      : shard_(shard), answers_(std::move(answers)), asked_(asked) {}
  void look_up(const std::string&, Then then) override {
    std::vector<Endpoint> found;
    size_t turn = std::min(size_t(asked_++), answers_.size() - 1);
    for (const auto& address : answers_[turn]) {
      auto text = address.find(':') == address.npos ? address + ":0" : "[" + address + "]:0";
      found.push_back(resolve(text)->at(0));
    }
    shard_.env().at(shard_.env().now(), [then = std::move(then), found = std::move(found)] { then(found); });
  }

 private:
  Shard& shard_;
  std::vector<std::vector<std::string>> answers_;
  std::atomic<int>& asked_;
};

// A fetcher on a shard of its own.
struct Client {
  explicit Client(wire::FetchRules rules, uint64_t most = 1 << 20,
                  std::vector<std::vector<std::string>> answers = {{}}) {
    auto made = WebFetcher::make(shard, rules, most, std::make_unique<Script>(shard, std::move(answers), asked));
    EXPECT_TRUE(made) << made.error().text;
    fetcher = std::move(*made);
    shard.start();
  }
  ~Client() {
    shard.stop();
    shard.join();
  }

  struct Receiver final : wire::Fetcher::Receiver {
    bool on_growth(uint64_t held) override { return grown = held, held <= room; }
    void on_fetched(base::Result<base::Bytes> bytes) override {
      fetch.reset();  // from inside
      done.set_value(std::move(bytes));
    }
    uint64_t grown = 0, room = UINT64_MAX;
    std::unique_ptr<wire::Fetcher::Fetch> fetch;
    std::promise<base::Result<base::Bytes>> done;
  };
  // The bytes, or "CODE: text".
  std::string get(const std::string& url, uint64_t room = UINT64_MAX) {
    Receiver receiver;
    receiver.room = room;
    shard.post([&] {
      auto begun = fetcher->fetch(url, receiver);
      if (begun)
        receiver.fetch = std::move(*begun);
      else
        receiver.done.set_value(begun.error());
    });
    auto got = receiver.done.get_future().get();
    if (got) return std::string(got->view());
    return std::string(base::name(got.error().code)) + ": " + got.error().text;
  }
  // Runs on the shard, to its end.
  void on_shard(const std::function<void()>& work) {
    std::promise<void> over;
    shard.post([&] { work(), over.set_value(); });
    over.get_future().wait();
  }

  std::atomic<int> asked{0};
  Shard shard{base::ShardId{7}, Pin::kNo};
  std::unique_ptr<WebFetcher> fetcher;
};

wire::FetchRules loopback_rules(std::vector<std::string> hosts) {
  wire::FetchRules rules;
  rules.schemes = {"http", "https"};
  rules.hosts = std::move(hosts);
  rules.networks = {"127.0.0.1"};
  rules.timeout = std::chrono::seconds(20);
  return rules;
}

struct Canned : lab::Rig {
  explicit Canned(std::string answer, ServerOptions options = lab::loopback()) : Rig(std::move(options)) {
    lab.canned = std::move(answer);
    EXPECT_TRUE(server->bind().ok());
    server->start();
  }
  std::string at(const std::string& host) { return host + ":" + std::to_string(port()); }
};

TEST(WebFetcher, BringsWhatTheServerHas) {
  Canned rig(kHello);
  Client client(loopback_rules({rig.at("127.0.0.1"), rig.at("a.example")}), 1 << 20, {{"127.0.0.1"}});
  EXPECT_EQ(client.get("http://" + rig.at("127.0.0.1") + "/x"), "hello");
  EXPECT_EQ(client.asked, 0);
  EXPECT_EQ(client.get("http://" + rig.at("A.Example") + "/x"), "hello");
  EXPECT_EQ(client.asked, 1);
}

TEST(WebFetcher, ANameThatLeadsInsideIsRefusedAndOneThatIsNotThereHasTheSameText) {
  Canned rig(kHello);
  wire::FetchRules rules = loopback_rules({rig.at("a.example")});
  rules.networks = {};
  const std::string url = "http://" + rig.at("a.example") + "/", text = "UNAVAILABLE: its host has no public address";
  for (std::vector<std::string> found : {std::vector<std::string>{"127.0.0.1"},
                                         {"::1"},
                                         {"::ffff:127.0.0.1"},
                                         {"8.8.8.8", "127.0.0.1"},
                                         {"169.254.169.254"},
                                         {}}) {
    Client client(rules, 1 << 20, {found});
    EXPECT_EQ(client.get(url), text);
  }
  EXPECT_EQ(rig.lab.made, 0) << "nobody has connected";
}

TEST(WebFetcher, ANameIsLookedUpOnceSoThatChangingItLeadsNowhere) {
  Canned rig(kHello);
  Client client(loopback_rules({rig.at("a.example")}), 1 << 20, {{"127.0.0.1"}, {"127.0.0.2"}});
  const std::string url = "http://" + rig.at("a.example") + "/";
  EXPECT_EQ(client.get(url), "hello");
  EXPECT_EQ(client.asked, 1);
  EXPECT_EQ(client.get(url), "UNAVAILABLE: its host has no public address");
  EXPECT_EQ(client.asked, 2);
}

TEST(WebFetcher, TheNextAddressIsTriedWhereNobodyAnswers) {
  Canned rig(kHello);
  wire::FetchRules rules = loopback_rules({rig.at("a.example")});
  rules.networks = {"127.0.0.0/8"};
  Client client(rules, 1 << 20, {{"127.0.0.3", "127.0.0.1"}});
  EXPECT_EQ(client.get("http://" + rig.at("a.example") + "/"), "hello");
  Client nobody(rules, 1 << 20, {{"127.0.0.3"}});
  EXPECT_EQ(nobody.get("http://" + rig.at("a.example") + "/"), "UNAVAILABLE: its server cannot be reached");
}

TEST(WebFetcher, RedirectsAreNotFollowed) {
  Canned rig("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/secret\r\nContent-Length: 0\r\n\r\n");
  Client client(loopback_rules({rig.at("127.0.0.1")}));
  EXPECT_EQ(client.get("http://" + rig.at("127.0.0.1") + "/"),
            "UNAVAILABLE: its server answers with status 302; redirects are not followed");
}

TEST(WebFetcher, SizeIsLimitedAnnouncedOrNotAndByWhatTheReceiverHasRoomFor) {
  const std::string big(100'000, 'x'),
      chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n" + big + "\r\n";
  Canned announced("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + big), endless(chunked + "186a0\r\n" + big);
  Client client(
      loopback_rules({"127.0.0.1:" + std::to_string(announced.port()), "127.0.0.1:" + std::to_string(endless.port())}),
      50'000);
  EXPECT_EQ(client.get("http://" + announced.at("127.0.0.1") + "/"),
            "RESOURCE_EXHAUSTED: it is larger than 50000 bytes");
  EXPECT_EQ(client.get("http://" + endless.at("127.0.0.1") + "/"), "RESOURCE_EXHAUSTED: it is larger than 50000 bytes");
  Client tight(loopback_rules({endless.at("127.0.0.1")}));
  EXPECT_EQ(tight.get("http://" + endless.at("127.0.0.1") + "/", 1000),
            "RESOURCE_EXHAUSTED: too much is being loaded at once");
}

TEST(WebFetcher, AnAnswerThatIsCutShortIsAnError) {
  Canned rig("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello");
  Client client(loopback_rules({rig.at("127.0.0.1")}));
  EXPECT_EQ(client.get("http://" + rig.at("127.0.0.1") + "/"),
            "UNAVAILABLE: its server has closed before the end of the answer");
}

// The kernel takes connections for it, but nobody answers.
struct Silent {
  Fd fd = *listen_at(resolve("127.0.0.1:0")->at(0), Sharing::kAlone);
  std::string at = local_endpoint(fd).text();
};

TEST(WebFetcher, ASilentServerIsGivenUp) {
  Silent server;
  wire::FetchRules rules = loopback_rules({server.at});
  rules.timeout = std::chrono::milliseconds(20);
  Client client(rules);
  EXPECT_EQ(client.get("http://" + server.at + "/"), "DEADLINE_EXCEEDED: it has not come in time");
}

TEST(WebFetcher, WhoLosesInterestClosesTheConnection) {
  Silent server;
  Client client(loopback_rules({server.at}));
  std::vector<std::unique_ptr<Client::Receiver>> receivers;
  client.on_shard([&] {
    for (size_t i = 0; i < WebFetcher::kAtOnce + 10; ++i) {  // some wait in line
      auto& receiver = *receivers.emplace_back(std::make_unique<Client::Receiver>());
      receiver.fetch = *client.fetcher->fetch("http://" + server.at + "/", receiver);
    }
  });
  Fd accepted;
  while (!accepted) accepted = Fd(::accept(server.fd.get(), nullptr, nullptr));
  client.on_shard([&] {
    for (auto& receiver : receivers) receiver->fetch.reset();
  });
  ::fcntl(accepted.get(), F_SETFL, 0);
  std::string text(64 << 10, 0);
  ssize_t n;
  while ((n = ::recv(accepted.get(), text.data(), text.size(), 0)) > 0) continue;
  EXPECT_LE(n, 0) << "FIN, or a reset";
}

TEST(WebFetcher, MoreThanRunAtOnceWaitInLine) {
  Canned rig(kHello);
  Client client(loopback_rules({rig.at("127.0.0.1")}));
  std::vector<std::unique_ptr<Client::Receiver>> receivers;
  client.on_shard([&] {
    for (size_t i = 0; i < 3 * WebFetcher::kAtOnce; ++i) {
      auto& receiver = *receivers.emplace_back(std::make_unique<Client::Receiver>());
      receiver.fetch = *client.fetcher->fetch("http://" + rig.at("127.0.0.1") + "/", receiver);
    }
  });
  for (auto& receiver : receivers) {
    auto got = receiver->done.get_future().get();
    EXPECT_TRUE(got && got->view() == "hello");
  }
}

TEST(WebFetcher, RefusesBeforeAnythingIsDone) {
  Client client(loopback_rules({"a.example"}));
  EXPECT_EQ(client.get("http://b.example/"),
            "PERMISSION_DENIED: its host and port are not among those that are allowed");
  EXPECT_EQ(client.get("http://a.example:22/"),
            "PERMISSION_DENIED: its host and port are not among those that are allowed");
  EXPECT_EQ(client.get("http://u:p@a.example/"), "INVALID_ARGUMENT: it has a user name or password");
  EXPECT_EQ(client.asked, 0);
}

// --- TLS -------------------------------------------------------------------------------------------------------------

// A certificate for a.example and 127.0.0.1 that signs itself.
struct Papers {
  Papers() {
    char text[] = "/tmp/weir-fetch-XXXXXX";
    folder = ::mkdtemp(text);
    std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> pair(EVP_EC_gen("P-256"), EVP_PKEY_free);
    std::unique_ptr<X509, decltype(&X509_free)> paper(X509_new(), X509_free);
    X509_set_version(paper.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(paper.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(paper.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(paper.get()), 3600);
    X509_set_pubkey(paper.get(), pair.get());
    auto* subject = X509_get_subject_name(paper.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("weir"), -1, -1, 0);
    X509_set_issuer_name(paper.get(), subject);
    auto* names = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:a.example,IP:127.0.0.1");
    X509_add_ext(paper.get(), names, -1);
    X509_EXTENSION_free(names);
    X509_sign(paper.get(), pair.get(), EVP_sha256());
    FILE* file = ::fopen((folder + "/cert.pem").c_str(), "w");
    PEM_write_X509(file, paper.get());
    ::fclose(file);
    file = ::fopen((folder + "/key.pem").c_str(), "w");
    PEM_write_PrivateKey(file, pair.get(), nullptr, nullptr, 0, nullptr, nullptr);
    ::fclose(file);
  }
  ~Papers() {
    ::unlink((folder + "/cert.pem").c_str());
    ::unlink((folder + "/key.pem").c_str());
    ::rmdir(folder.c_str());
  }
  ServerOptions options() const {
    ServerOptions out = lab::loopback();
    out.tls = {folder + "/cert.pem", folder + "/key.pem", {}, false};
    return out;
  }
  std::string folder;
};

TEST(WebFetcher, HttpsIsBelievedOnlyForTheNameAndFromAnAuthorityThatIsKnown) {
  Papers papers;
  Canned rig(kHello, papers.options());
  wire::FetchRules rules = loopback_rules({rig.at("127.0.0.1"), rig.at("a.example"), rig.at("b.example")});
  {
    Client stranger(rules, 1 << 20, {{"127.0.0.1"}});
    EXPECT_EQ(stranger.get("https://" + rig.at("a.example") + "/").substr(0, 40),
              "UNAVAILABLE: TLS to its server failed: c");
  }
  rules.ca_file = papers.folder + "/cert.pem";
  Client client(rules, 1 << 20, {{"127.0.0.1"}});
  EXPECT_EQ(client.get("https://" + rig.at("a.example") + "/"), "hello");
  EXPECT_EQ(client.get("https://" + rig.at("127.0.0.1") + "/"), "hello");
  EXPECT_EQ(client.get("https://" + rig.at("b.example") + "/").substr(0, 38), "UNAVAILABLE: TLS to its server failed:");
}

TEST(WebFetcher, AServerThatSpeaksNoTlsIsNotTaken) {
  Canned rig(kHello);
  wire::FetchRules rules = loopback_rules({rig.at("127.0.0.1")});
  rules.timeout = std::chrono::seconds(5);
  Client client(rules);
  EXPECT_EQ(client.get("https://" + rig.at("127.0.0.1") + "/").substr(0, 12), "UNAVAILABLE:");
}

TEST(WebFetcher, AFileOfAuthoritiesThatIsNoneIsAnErrorAtTheStart) {
  Shard shard{base::ShardId{7}, Pin::kNo};
  wire::FetchRules rules;
  rules.ca_file = "/nowhere";
  EXPECT_EQ(WebFetcher::make(shard, rules, 1).error().code, Code::kFailedPrecondition);
}

}  // namespace
}  // namespace weir::net
