#include "wire/sniff.h"

#include <gtest/gtest.h>

#include <string>

#include "support/fake_wire.h"

namespace weir::wire {
namespace {

using support::FakeIntake;
using support::FakeWire;
using namespace std::chrono_literals;

// Remembers what it was fed.
struct Recorder final : Codec {
  std::string name, got;
  explicit Recorder(std::string n) : name(std::move(n)) {}
  void feed(std::span<const std::byte> bytes) override {
    got.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void eof() override { got += "|eof"; }
  void closed() override { got += "|closed"; }
  size_t pending(std::span<iovec>) override { return 0; }
  void consumed(size_t) override {}
  bool wants_read() const override { return false; }
  bool finished() const override { return false; }
  bool idle() const override { return true; }
  void tick(base::Time) override { got += "|tick"; }
  void drain(Drain) override { got += "|drain"; }
  std::string_view protocol() const override { return name; }
};

template <char name>
std::unique_ptr<Codec> recorder(const CodecEnv&, Wire&, const PeerInfo&) {
  return std::make_unique<Recorder>(name == 'b' ? "baidu_std" : std::string("h") + name);
}

struct Conn {
  FakeWire wire;
  FakeIntake intake;
  Limits limits;
  PeerInfo peer;
  CodecEnv env{intake, base::heap(), limits};
  Sniff sniff{env, wire, peer, {recorder<'1'>, recorder<'2'>, recorder<'b'>}};
  void feed(std::string_view text) { support::feed(sniff, text); }
  std::string got() {
    auto next = sniff.successor();
    return next ? static_cast<Recorder&>(*next).name + ":" + static_cast<Recorder&>(*next).got : "";
  }
};

TEST(Sniff, ThePrefaceIsKnownAtEverySplitPoint) {
  std::string all = std::string(kH2Preface) + "rest";
  for (size_t at = 0; at <= kH2Preface.size(); ++at) {
    Conn c;
    c.feed(std::string_view(all).substr(0, at));
    EXPECT_EQ(c.sniff.protocol(), at == 24 ? "h2" : "sniff") << at;
    EXPECT_TRUE(at == 24 || c.sniff.wants_read());
    c.feed(std::string_view(all).substr(at));
    EXPECT_EQ(c.got(), "h2:" + all) << at;
  }
}

TEST(Sniff, ThePrefaceMayComeByteByByte) {
  Conn c;
  for (char byte : kH2Preface) c.feed(std::string_view(&byte, 1));
  EXPECT_EQ(c.got(), "h2:" + std::string(kH2Preface));
}

TEST(Sniff, BaiduStdIsKnownAtEverySplitPoint) {
  const std::string all = "PRPC\1rest";
  for (size_t at = 0; at <= 4; ++at) {
    Conn c;
    c.feed(std::string_view(all).substr(0, at));
    EXPECT_EQ(c.sniff.protocol(), at == 4 ? "baidu_std" : "sniff") << at;
    c.feed(std::string_view(all).substr(at));
    EXPECT_EQ(c.got(), "baidu_std:" + all) << at;
  }
}

TEST(Sniff, EveryOtherBeginIsHttp1AtItsFirstByteThatDiffers) {
  for (size_t at = 0; at < kH2Preface.size(); ++at) {
    std::string all = std::string(kH2Preface.substr(0, at)) + "~rest";
    for (size_t split = 0; split <= at; ++split) {
      Conn c;
      c.feed(std::string_view(all).substr(0, split));
      EXPECT_EQ(c.sniff.protocol(), "sniff");
      c.feed(std::string_view(all).substr(split));
      EXPECT_EQ(c.got(), "h1:" + all) << at << " " << split;
    }
  }
  for (std::string all : {"GET / HTTP/1.1\r\n", "POST", "PUT /", "PRI * HTTP/1.1\r\n\r\n", "PROPFIND", "PRPX"}) {
    Conn c;
    c.feed(all);
    EXPECT_EQ(c.got(), "h1:" + all);
  }
}

TEST(Sniff, ForwardsWhenNobodyAsksForTheSuccessor) {
  Conn c;
  c.feed("GET");
  c.feed(" /");
  c.sniff.tick(c.wire.now());
  c.sniff.drain(Drain::kRefuse);
  c.sniff.eof();
  c.sniff.closed();
  EXPECT_FALSE(c.sniff.wants_read());
  EXPECT_EQ(c.got(), "h1:GET /|tick|drain|eof|closed");
}

TEST(Sniff, SilenceIsClosedAfterTheLimit) {
  for (std::string begin : {"", "PRI * HT"}) {
    Conn c;
    c.feed(begin);
    c.wire.env.advance(5s);
    c.sniff.tick(c.wire.now());
    EXPECT_FALSE(c.sniff.finished());
    c.wire.env.advance(1s);
    c.sniff.tick(c.wire.now());
    EXPECT_TRUE(c.sniff.finished());
    EXPECT_EQ(c.intake.rejections, std::vector<std::string>{begin.empty() ? "idle" : "preface"});
    c.feed("more");
    EXPECT_EQ(c.got(), "");
  }
}

TEST(Sniff, AnUndecidedConnectionMayEndAnyTime) {
  for (int how = 0; how < 3; ++how) {
    Conn c;
    c.feed("PRI");
    if (how == 0) c.sniff.eof();
    if (how == 1) c.sniff.closed();
    if (how == 2) c.sniff.drain(Drain::kRefuse);
    EXPECT_TRUE(c.sniff.finished());
    EXPECT_TRUE(c.sniff.idle());
  }
}

}  // namespace
}  // namespace weir::wire
