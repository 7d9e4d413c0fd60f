// Any bytes as an HTTP/2 client, in any pieces, with services that answer early, late, in parts or not at all, a socket
// that takes what it likes, and time that passes: every Exchange begun is closed once, and what goes out is frames.
//
// Input: byte 0 chooses the piece size and whether the preface comes for free; byte 1 seeds services and socket; the
// rest are the bytes of the client.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "h2_frames.h"
#include "require.h"
#include "support/fake_wire.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

class Bench {
 public:
  explicit Bench(uint32_t seed) : random_(seed | 1) {
    intake.on_begin = [this](wire::Exchange& x) { return begin(x); };
    intake.on_closed = [this](wire::Exchange& x) { std::erase(streaming_, &x); };
  }
  uint32_t pick(uint32_t n) { return ((random_ = random_ * 1664525 + 1013904223) >> 16) % n; }

  void step() {
    slabs.empty = pick(5) == 0;
    if (!streaming_.empty()) emit(*streaming_[pick(uint32_t(streaming_.size()))]);
    if (pick(4) == 0) write();
    if (pick(8) == 0) {
      fake.env.advance(std::chrono::milliseconds(pick(4000)));
      codec->tick(fake.env.now());
    }
    if (pick(64) == 0) codec->drain(pick(2) ? wire::Drain::kAnnounce : wire::Drain::kRefuse);
  }
  // One write, perhaps of a part.
  bool write() {
    std::array<iovec, 8> pieces;
    size_t n = codec->pending(pieces), total = 0;
    std::string shown;
    for (size_t i = 0; i < n; ++i) {
      require(pieces[i].iov_len > 0, "an empty piece");
      shown.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
    }
    total = n > 0 && pick(3) == 0 ? 1 + pick(uint32_t(shown.size())) : shown.size();
    frames.take(std::string_view(shown).substr(0, total));
    codec->consumed(total);
    return n > 0;
  }

  support::FakeWire fake;
  support::FakeSlabs slabs;
  support::FakeIntake intake;
  wire::Limits limits;
  wire::PeerInfo peer{"127.0.0.1:1", wire::Security::kCleartext};
  wire::CodecEnv env{intake, slabs, limits};
  std::unique_ptr<wire::Codec> codec = wire::make_h2(env, fake, peer);
  H2Frames frames;

 private:
  class Eater final : public wire::ExchangeListener {
   public:
    explicit Eater(bool gives) : gives_(gives) {}
    ~Eater() override { require(closed_, "an ExchangeListener that was not told"); }
    void on_data(wire::Exchange& x, std::span<const std::byte> piece) override {
      require(!ended_ && !closed_, "data after the end");
      if (gives_) x.consume(piece.size());
    }
    void on_end(wire::Exchange&) override {
      require(!ended_ && !closed_, "a second end");
      ended_ = true;
    }
    void on_drain(wire::Exchange& x) override { x.body(base::Bytes::constant("drained")); }
    void on_close(wire::Exchange& x, bool) override {
      require(!closed_, "a second close");
      closed_ = true;
      x.body(base::Bytes::constant("too late"));
      x.end();
    }

   private:
    bool gives_, ended_ = false, closed_ = false;
  };

  wire::Plan begin(wire::Exchange& x) {
    switch (pick(6)) {
      case 0: x.respond(404, "text/plain", base::Bytes::constant("no")); return {};
      case 1:
        x.respond(200, "text/plain", base::Bytes::adopt(std::string(100000, 'x')));
        return {wire::BodyPlan::kIgnore, 0};
      case 2:
      case 3:
        streaming_.push_back(&x);
        x.attach(std::make_unique<Eater>(pick(2)));
        return {wire::BodyPlan::kStream, 0};
      case 4: return {wire::BodyPlan::kWhole, 10};
      default: return {};
    }
  }
  void emit(wire::Exchange& x) {
    wire::Fields trailers;
    switch (pick(8)) {
      case 0: return x.head({});
      case 1: return x.body(base::Bytes::adopt(std::string(pick(70000), 'r')));
      case 2: return x.end();
      case 3: trailers.add("grpc-status", "0"); return x.end(std::move(trailers));
      case 4: return x.reset(wire::Reset(pick(4)));
      case 5: return x.consume(pick(100000));
      default: return;
    }
  }

  uint32_t random_;
  std::vector<wire::Exchange*> streaming_;
};

constexpr std::string_view kOpening("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\0\4\1\0\0\0\0", 42);

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  constexpr std::array<size_t, 8> kPieces{1, 2, 3, 9, 17, 100, 1000, 1 << 20};
  size_t piece = kPieces[data[0] & 7];
  Bench bench(data[1]);
  if (!(data[0] & 0x80)) support::feed(*bench.codec, kOpening);
  std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  for (size_t at = 0; at < rest.size(); at += piece) {
    support::feed(*bench.codec, rest.substr(at, piece));
    bench.step();
  }
  if (data[0] & 0x40) bench.codec->eof();
  for (int i = 0; i < 1000 && bench.write(); ++i) {
  }
  bench.codec->closed();
  std::array<iovec, 1> none;
  require(bench.codec->pending(none) == 0, "output of a closed connection");
  require(bench.intake.begun == bench.intake.closes, "an Exchange that was not closed");
  return 0;
}
