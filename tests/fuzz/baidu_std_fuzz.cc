// Any bytes as a connection of baidu_std, whole and in pieces: both must give the same requests and the same answers,
// and every Exchange that begins must close once.
//
// Input: byte 0 chooses what the service does, byte 1 the size of the pieces; the rest is the connection.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "require.h"
#include "support/fake_wire.h"
#include "support/split_feed.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

// Answers a call with its own frame; the second bit: with two, the third: and without taking its bytes before.
struct Echo final : wire::ExchangeListener {
  explicit Echo(uint8_t how) : how(how) {}
  void on_data(wire::Exchange& x, std::span<const std::byte> piece) override {
    body.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    if ((how & 4) == 0) x.consume(piece.size());
  }
  void on_end(wire::Exchange& x) override {
    wire::Response response;
    response.fields.add("content-type", "application/grpc");
    x.head(std::move(response));
    for (int i = 0; i < 1 + (how >> 1 & 1); ++i) x.body(base::Bytes::copy_of(body));
    wire::Fields trailers;
    trailers.add("grpc-status", "0");
    x.end(std::move(trailers));
  }
  void on_close(wire::Exchange&, bool) override {}

  const uint8_t how;
  std::string body;
};

std::string run(uint8_t how, size_t piece, std::string_view transcript) {
  support::FakeWire wire;
  support::FakeIntake intake;
  support::FakeSlabs slabs;
  wire::Limits limits;
  wire::PeerInfo peer;
  std::string seen, out;
  intake.on_begin = [&](wire::Exchange& x) {
    const wire::Request& r = x.request();
    require(r.method == "POST" && r.target.front() == '/' && r.fields.find("content-type") == "application/grpc",
            "a call");
    seen += r.target;
    for (size_t i = 0; i < r.fields.size(); ++i) seen.append(r.fields[i].name).append(r.fields[i].value);
    if (how & 1) x.respond(404, "text/plain", {});
    x.attach(std::make_unique<Echo>(how));
    return wire::Plan{wire::BodyPlan::kStream, 1 << 30};
  };
  wire::CodecEnv env{intake, slabs, limits};
  auto codec = wire::make_baidu_std(env, wire, peer);
  support::feed_in_pieces(transcript, piece, [&](auto bytes) {
    codec->feed(bytes);
    out += support::take_output(*codec);
    while (std::exchange(wire.tick_wanted, false)) {
      codec->tick(wire.now());
      out += support::take_output(*codec);
    }
    require(intake.open.size() <= limits.streams, "streams");
  });
  codec->tick(wire.now());
  out += support::take_output(*codec);
  codec->closed();
  require(intake.begun == intake.closes, "an exchange did not close");
  require(codec->finished(), "finished");
  return seen + out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  std::string_view transcript(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string whole = run(data[0], transcript.size() + 1, transcript);
  const std::string pieces = run(data[0], data[1] % 64 + size_t(1), transcript);
  require(whole.size() == pieces.size(), "the same in pieces");  // abandoned calls may be answered later than others
  if ((data[0] & 2) == 0) require(whole == pieces, "the same in pieces");
  return 0;
}
