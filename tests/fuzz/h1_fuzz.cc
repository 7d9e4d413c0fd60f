// Any bytes as an HTTP/1 connection, whole and in pieces: both must give the same requests and the same answers, and
// every Exchange that begins must close once.
//
// Input: byte 0 chooses the plan and how answers are given, byte 1 the size of the pieces; the rest is the connection.
// With bit 3 of byte 0 the rest is a script: 0xff and an operation among the connection's bytes is something that
// happens there (time passes, a drain, the peer's FIN, an answer, a write, memory runs out), and the second character
// of a target chooses what its service does.
#include <cstdint>
#include <string>
#include <string_view>

#include "require.h"
#include "support/fake_wire.h"
#include "support/split_feed.h"

namespace {

using namespace weir;  // NOLINT: a program of one file
using namespace std::chrono_literals;

struct Collecting final : wire::ExchangeListener {
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
  bool lacked_memory = false;  // at times
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
  wire::CodecEnv env{intake, slabs, limits};
  auto codec = wire::make_h1(env, wire, peer);
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

// An ExchangeListener that echoes what comes, in a conversation: byte by byte, since each piece of a body is a chunk,
// and what goes out must not depend on how the request was cut.
struct Echoing final : wire::ExchangeListener {
  void on_data(wire::Exchange& x, std::span<const std::byte> piece) override {
    for (std::byte byte : piece) x.body(base::Bytes::copy_of({reinterpret_cast<const char*>(&byte), 1}));
    x.consume(piece.size());
  }
  void on_end(wire::Exchange& x) override { x.end(); }
  void on_close(wire::Exchange&, bool) override {}
};

// One connection to which more happens than bytes.
class Script {
 public:
  explicit Script(size_t piece) : piece_(piece) {
    intake_.on_begin = [this](wire::Exchange& x) { return begin(x); };
    intake_.on_whole = [](wire::Exchange& x) {
      if (!x.request().target.starts_with("/h")) answer(x);
    };
  }

  Run play(std::string_view script) {
    for (size_t at = 0; at < script.size();) {
      size_t mark = std::min(script.find('\xff', at), script.size());
      support::feed_in_pieces(script.substr(at, mark - at), piece_, [this](auto bytes) { feed(bytes); });
      if (mark + 1 < script.size()) happen(uint8_t(script[mark + 1]));
      at = mark + 2;
    }
    take(0);
    codec_->closed();
    require(support::take_output(*codec_).empty(), "nothing is pending on a connection that has gone");
    require(intake_.begun == intake_.closes && intake_.open.empty(), "every exchange closes once");
    return std::move(result_);
  }

 private:
  static void answer(wire::Exchange& x) { x.respond(200, "text/plain", base::Bytes::copy_of(x.request().target)); }

  wire::Plan begin(wire::Exchange& x) {
    const std::string& target = x.request().target;
    result_.requests += x.request().method + " " + target + "\n";
    require(!finished_, "nothing is taken when the connection has ended");
    switch (target.size() > 1 ? target[1] : ' ') {
      case 'i': answer(x); return {wire::BodyPlan::kIgnore};
      case 'w': answer(x); return {wire::BodyPlan::kWhole};
      case 'r': x.reset(wire::Reset::kInternal); return {wire::BodyPlan::kStream};
      case 'R': x.head({}), x.reset(wire::Reset::kCancel); return {wire::BodyPlan::kStream};
      case 'e': x.attach(std::make_unique<Echoing>()), x.head({}); return {wire::BodyPlan::kStream};
      case 's': x.attach(std::make_unique<Collecting>()); return {wire::BodyPlan::kStream, 4096};
      case 'S': answer(x), x.attach(std::make_unique<Collecting>()); return {wire::BodyPlan::kStream};
      case 'u': {
        wire::Response upgrade;
        upgrade.status = 101;
        x.attach(std::make_unique<Echoing>());
        x.head(std::move(upgrade));
        return {wire::BodyPlan::kStream};
      }
      default: return {wire::BodyPlan::kWhole, 4096};
    }
  }

  void feed(std::span<const std::byte> bytes) {
    codec_->feed(bytes);
    check_state();
  }
  void check_state() {
    require(intake_.open.size() <= 2 * limits_.pipelined, "pipeline");
    finished_ = finished_ || codec_->finished();
  }
  void take(size_t bite) {
    result_.out += support::take_output(*codec_, bite);
    check_state();
  }
  void pass(base::Duration time) {
    wire_.env.advance(time);
    codec_->tick(wire_.now());
  }

  void happen(uint8_t what) {
    wire::Exchange* oldest = intake_.open.empty() ? nullptr : intake_.open.front();
    wire::Exchange* newest = intake_.open.empty() ? nullptr : intake_.open.back();
    switch (what & 15) {
      case 0: pass(1s); break;
      case 1: pass(11s); break;
      case 2: pass(80s); break;
      case 3: codec_->drain(wire::Drain::kAnnounce); break;
      case 4: codec_->drain(wire::Drain::kRefuse); break;
      case 5: codec_->eof(); break;
      case 6: codec_->closed(); break;
      case 7: oldest ? answer(*oldest) : void(); break;
      case 8: newest ? answer(*newest) : void(); break;
      case 9: oldest ? oldest->reset(wire::Reset::kCancel) : void(); break;
      case 10: take(0); break;
      case 11: take(3); break;
      case 12: slabs_.empty = !slabs_.empty, result_.lacked_memory = true; break;
      case 13: newest ? newest->head({}), newest->body(base::Bytes::copy_of("more")) : void(); break;
      case 14: newest ? newest->end() : void(); break;
      case 15: slabs_.is_scarce = !slabs_.is_scarce; break;
    }
    check_state();
  }

  support::FakeWire wire_;
  support::FakeIntake intake_;
  support::FakeSlabs slabs_;
  wire::Limits limits_;
  wire::PeerInfo peer_;
  wire::CodecEnv env_{intake_, slabs_, limits_};
  std::unique_ptr<wire::Codec> codec_ = wire::make_h1(env_, wire_, peer_);
  size_t piece_;
  bool finished_ = false;
  Run result_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  std::string_view transcript(reinterpret_cast<const char*>(data) + 2, size - 2);
  uint8_t how = data[0] & 15;
  bool script = how & 8;
  auto in_pieces = [&](size_t piece) { return script ? Script(piece).play(transcript) : run(how, piece, transcript); };
  Run whole = in_pieces(transcript.size() + 1);
  Run pieces = in_pieces(data[1] % 32 + 1);
  // Answers that come late meet a different pipeline when the bytes come in pieces. A body that waits for memory keeps
  // what is wrong behind it from being seen, unless it came in the same piece.
  if (script ? !whole.lacked_memory : (how & 4) == 0) {
    require(whole.requests == pieces.requests, "requests do not depend on the split");
    require(whole.out == pieces.out, "answers do not depend on the split");
  }
  return 0;
}
