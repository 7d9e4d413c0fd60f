// Any bytes as an HTTP/1 connection, whole and in pieces: both must give the same requests and the same answers, and
// every Exchange that begins must close once.
//
// Input: byte 0 chooses the plan and how answers are given, byte 1 the size of the pieces; the rest is the connection.
#include <cstdint>
#include <string>
#include <string_view>

#include "require.h"
#include "support/fake_wire.h"
#include "support/split_feed.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

struct Collecting final : wire::Reader {
  std::string body;
  void on_data(wire::Exchange& x, std::span<const std::byte> piece) override {
    body.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    x.consume(piece.size());
  }
  void on_end(wire::Exchange& x) override { x.respond(200, "text/plain", base::Bytes::copy_of(body)); }
  void on_close(wire::Exchange&, bool) override {}
};

struct Run {
  std::string requests, out;
};

// Answers late, in the reverse order, when bit 2 is set.
Run run(uint8_t how, size_t piece, std::string_view transcript) {
  support::FakeWire wire;
  support::FakeIntake intake;
  support::FakeSlabs slabs;
  wire::Limits limits;
  wire::PeerInfo peer;
  Run result;
  auto plan = wire::Plan{(how & 3) == 1   ? wire::BodyPlan::kStream
                         : (how & 3) == 2 ? wire::BodyPlan::kIgnore
                                          : wire::BodyPlan::kWhole,
                         4096};
  intake.on_begin = [&](wire::Exchange& x) {
    const wire::Request& r = x.request();
    require(!r.target.empty() && (r.target[0] == '/' || r.target == "*"), "origin form");
    require(r.content_length < 0 || !r.fields.has("transfer-encoding"), "one framing");
    result.requests += r.method + " " + r.target + " " + r.authority + "\n";
    if (plan.body == wire::BodyPlan::kStream) x.attach(std::make_unique<Collecting>());
    if (plan.body == wire::BodyPlan::kIgnore) x.respond(404, "", {});
    return plan;
  };
  intake.on_whole = [&](wire::Exchange& x) {
    require(x.content().size() <= plan.limit, "limit");
    result.requests += std::string(x.content().view()) + "\n";
    if ((how & 4) == 0) x.respond(200, "text/plain", x.content());
  };
  auto codec = wire::make_h1({intake, slabs, limits}, wire, peer);
  auto answer_late = [&] {
    for (auto open = intake.open; !open.empty(); open.pop_back())
      if (!open.back()->responding() && plan.body == wire::BodyPlan::kWhole) open.back()->head({});
    for (auto open = intake.open; !open.empty(); open.pop_back()) open.back()->end();
  };
  support::feed_in_pieces(transcript, piece, [&](auto bytes) {
    codec->feed(bytes);
    result.out += support::take_output(*codec);
    require(intake.open.size() <= limits.pipelined + 1, "pipeline");
  });
  if (how & 4) answer_late();
  result.out += support::take_output(*codec);
  codec->tick(wire.now());
  codec->eof();
  result.out += support::take_output(*codec);
  codec->closed();
  require(intake.begun == intake.closes && intake.open.empty(), "every exchange closes once");
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  std::string_view transcript(reinterpret_cast<const char*>(data) + 2, size - 2);
  uint8_t how = data[0] & 7;
  Run whole = run(how, transcript.size() + 1, transcript);
  Run pieces = run(how, data[1] % 32 + 1, transcript);
  // Answers that come late meet a different pipeline when the bytes come in pieces.
  if ((how & 4) == 0) {
    require(whole.requests == pieces.requests, "requests do not depend on the split");
    require(whole.out == pieces.out, "answers do not depend on the split");
  }
  return 0;
}
