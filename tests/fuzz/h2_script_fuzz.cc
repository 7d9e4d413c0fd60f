// A script of an HTTP/2 connection: the client's frames are made here, so that streams live long enough to be answered,
// reset, drained and timed out, and everything that may happen to a connection happens between them.
//
// Input: byte 0 chooses how the client's bytes are cut. Then each byte is a step: its low five bits say what happens
// (Script::happen), its high bits and the bytes behind it are arguments. The second character of a request's path says
// what its service does (Script::begin).
//
// Held to be true: every Exchange that begins closes once, nothing is said to an ExchangeListener after its close,
// nothing is taken when the connection has ended, work and streams are bounded, and what goes out is frames.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "h2_frames.h"
#include "require.h"
#include "support/fake_wire.h"
#include "support/split_feed.h"

namespace {

using namespace weir;  // NOLINT: a program of one file
using namespace std::chrono_literals;

constexpr std::string_view kPreface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
enum : uint8_t { kData, kHeaders, kPriority, kReset, kSettings, kPush, kPing, kGoaway, kWindow, kContinuation };
constexpr uint8_t kEndStream = 1, kEndHeaders = 4;

std::string frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  size_t n = payload.size();
  std::string out{char(n >> 16), char(n >> 8), char(n), char(type), char(flags)};
  for (int shift : {24, 16, 8, 0}) out += char(stream >> shift);
  return out += payload;
}
std::string number(uint32_t value) { return {char(value >> 24), char(value >> 16), char(value >> 8), char(value)}; }

// A field of HPACK's static table with a literal value (RFC 7541 §6.2.2); the value is short.
std::string field(uint8_t index, std::string_view value) {
  std::string out = index < 15 ? std::string{char(index)} : std::string{15, char(index - 15)};
  out += char(value.size());
  return out += value;
}

// Echoes, reads without an answer, or reads nothing at all.
class Service final : public wire::ExchangeListener {
 public:
  enum class Kind : uint8_t { kEcho, kRead, kHoard };
  explicit Service(Kind kind) : kind_(kind) {}
  ~Service() override { require(closed_, "an ExchangeListener hears of the end"); }
  void on_data(wire::Exchange& x, std::span<const std::byte> piece) override {
    require(!ended_ && !closed_, "no data follows the end");
    if (kind_ == Kind::kEcho) x.body(base::Bytes::copy_of({reinterpret_cast<const char*>(piece.data()), piece.size()}));
    if (kind_ != Kind::kHoard) x.consume(piece.size());
  }
  void on_end(wire::Exchange& x) override {
    require(!ended_ && !closed_, "a request ends once");
    ended_ = true;
    if (kind_ == Kind::kEcho) x.end();
  }
  void on_drain(wire::Exchange& x) override {
    require(!closed_, "nothing drains after the close");
    x.body(base::Bytes::constant("drained"));
  }
  void on_close(wire::Exchange& x, bool) override {
    require(!closed_, "an Exchange closes once");
    closed_ = true;
    x.body(base::Bytes::constant("too late"));
    x.end();
  }

 private:
  Kind kind_;
  bool ended_ = false, closed_ = false;
};

class Script {
 public:
  Script(std::string_view script, size_t piece) : script_(script), piece_(piece) {
    intake_.on_begin = [this](wire::Exchange& x) { return begin(x); };
    intake_.on_whole = [](wire::Exchange& x) {
      if (x.request().target.size() < 2 || x.request().target[1] != 'h') answer(x);
    };
  }

  void play() {
    feed(std::string(kPreface) + frame(kSettings, 0, 0, {}) + frame(kSettings, 1, 0, {}));
    while (at_ < script_.size()) {
      happen(next());
      require(intake_.open.size() <= 2 * size_t(limits_.streams), "streams are bounded");
    }
    for (int i = 0; i < 1000 && write(size_t(-1)); ++i) {
    }
    codec_->closed();
    std::array<iovec, 1> none;
    require(codec_->pending(none) == 0, "nothing is pending on a connection that has gone");
    require(intake_.begun == intake_.closes && intake_.open.empty(), "every exchange closes once");
    if (script_.size() % 2) codec_.reset();
    tickets_.clear();  // work that has outlived its connection
  }

 private:
  uint8_t next() { return at_ < script_.size() ? uint8_t(script_[at_++]) : 0; }
  std::string_view bytes(size_t n) {
    auto out = script_.substr(std::min(at_, script_.size()), n);
    at_ += out.size();
    return out;
  }
  // A stream of the last sixteen, by its age.
  uint32_t stream(uint8_t age) const { return uint32_t(std::max(last_ - 2 * age, 1)); }

  static void answer(wire::Exchange& x) { x.respond(200, "text/plain", base::Bytes::copy_of(x.request().target)); }

  wire::Plan begin(wire::Exchange& x) {
    require(!gone_, "nothing begins when the connection has ended");
    const std::string& target = x.request().target;
    switch (target.size() > 1 ? target[1] : ' ') {
      case 'i': answer(x); return {wire::BodyPlan::kIgnore};
      case 'w': answer(x); return {wire::BodyPlan::kWhole};
      case 'l': x.respond(200, "text/plain", base::Bytes::adopt(std::string(3 << 20, 'l'))); return {};
      case 'r': x.reset(wire::Reset::kInternal); return {wire::BodyPlan::kStream};
      case 'R': x.head({}), x.reset(wire::Reset::kCancel); return {wire::BodyPlan::kStream};
      case 'e': x.attach(std::make_unique<Service>(Service::Kind::kEcho)), x.head({}); return {wire::BodyPlan::kStream};
      case 's': x.attach(std::make_unique<Service>(Service::Kind::kRead)); return {wire::BodyPlan::kStream, 4096};
      case 'n': x.attach(std::make_unique<Service>(Service::Kind::kHoard)); return {wire::BodyPlan::kStream};
      case 't': tickets_.push_back(x.ticket()); return {};
      default: return {wire::BodyPlan::kWhole, 4096};
    }
  }

  void feed(std::string_view all) {
    if (closed_) return;
    support::feed_in_pieces(all, piece_, [this](auto bytes) {
      codec_->feed(bytes);
      gone_ = gone_ || (codec_->finished() && !leaving_);
    });
  }
  bool write(size_t most) {
    std::array<iovec, 8> pieces;
    std::string shown;
    for (size_t i = 0, n = codec_->pending(pieces); i < n; ++i)
      shown.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
    shown.resize(std::min(shown.size(), most));
    frames_.take(shown);
    codec_->consumed(shown.size());
    return !shown.empty();
  }
  void pass(base::Duration time) {
    wire_.env.advance(time);
    codec_->tick(wire_.now());
  }

  // A head: the method and the path from one argument, other fields from the other.
  std::string head(uint8_t kind, uint8_t more) {
    constexpr std::string_view kPaths = "iwlrResnth";
    std::string path{'/', kPaths[kind % kPaths.size()]};
    std::string block{char(kind & 0x40 ? 0x83 : 0x82), char(0x86)};
    block += field(1, "a") + field(4, path);
    if (more & 1) block += field(28, "3");
    if (more & 2) block += field(35, "100-continue");
    if (more & 4) block += field(31, more & 8 ? "application/grpc" : "application/grpc;x");
    if (more & 16) block += field(26, "gzip");
    if (more & 32) block += std::string("\0\1X\1y", 5);  // an upper-case name
    if (more & 64) block += std::string("\x40\2te\7trailers", 12);
    if (more & 128)
      for (int i = 0; i < 120; ++i) block += std::string("\0\1x\1y", 5);
    return block;
  }

  uint32_t setting() {
    const uint32_t value = next();
    return value << next() % 24;
  }
  uint32_t opened() { return uint32_t(last_ += 2); }

  void happen(uint8_t what) {
    const uint8_t age = what >> 5;
    switch (what & 31) {
      case 0:
      case 1: feed(frame(kHeaders, kEndHeaders | kEndStream, opened(), head(next(), 0))); break;
      case 2:
      case 3: feed(frame(kHeaders, kEndHeaders, opened(), head(0x40 | next(), age))); break;
      case 4: {
        uint8_t kind = next(), more = next();
        feed(frame(kHeaders, uint8_t(kEndHeaders | (kind >> 7)), opened(), head(kind, more)));
        break;
      }
      case 5: {  // in two frames
        const uint8_t kind = next();
        std::string block = head(kind, next());
        size_t cut = next() % (block.size() + 1);
        feed(frame(kHeaders, 0, opened(), block.substr(0, cut)));
        feed(frame(kContinuation, kEndHeaders, uint32_t(last_), block.substr(cut)));
        break;
      }
      case 6: feed(frame(kData, 0, stream(age), std::string(next(), 'd'))); break;
      case 7: feed(frame(kData, kEndStream, stream(age), std::string(next(), 'e'))); break;
      case 8: feed(frame(kData, 0, stream(age), std::string(size_t(next()) * 64, 'D'))); break;
      case 9: feed(frame(kReset, 0, stream(age), number(next()))); break;
      case 10: feed(frame(kWindow, 0, stream(age), number(1 + uint32_t(next()) * 4096))); break;
      case 11: feed(frame(kWindow, 0, 0, number(1 + uint32_t(next()) * 65536))); break;
      case 12: feed(frame(kSettings, 0, 0, std::string{0, char(1 + age)} + number(setting()))); break;
      case 13: feed(frame(age & 1 ? kPing : kSettings, age & 2 ? 1 : 0, 0, age & 1 ? "12345678" : "")); break;
      case 14:  // with nothing open that is the end, unless the client asks again before it comes
        leaving_ = true;
        feed(frame(kGoaway, 0, 0, number(uint32_t(last_)) + number(age)));
        break;
      case 15: feed(frame(kHeaders, kEndHeaders | kEndStream, stream(age), field(58, "trailer"))); break;
      case 16: {
        uint8_t type = next(), flags = next(), size = next();
        feed(frame(type, flags, age < 7 ? stream(age) : 0, bytes(size)));
        break;
      }
      case 17: feed(bytes(next())); break;
      case 18: pass(std::array{1ms, 100ms, 1000ms, 5000ms, 11'000ms, 80'000ms, 310'000ms, 2000ms}[age]); break;
      case 19: codec_->drain(age & 1 ? wire::Drain::kRefuse : wire::Drain::kAnnounce); break;
      case 20:
        if (age == 6 && !closed_) codec_->eof();
        if (age == 7) codec_->closed(), gone_ = closed_ = true;
        break;
      case 21: write(size_t(-1)); break;
      case 22: write(size_t(next()) * (age + 1)); break;
      case 23: slabs_.empty = !slabs_.empty; break;
      case 24: slabs_.is_scarce = age & 1, slabs_.is_hopeless = age & 2; break;
      case 25: tickets_.clear(); break;
      default:
        if (!intake_.open.empty()) emit(*intake_.open[age % intake_.open.size()], what & 31);
    }
  }

  void emit(wire::Exchange& x, int what) {
    wire::Fields trailers;
    switch (what) {
      case 26: return answer(x);
      case 27: return x.head({});
      case 28: return x.body(base::Bytes::adopt(std::string(size_t(next()) * 1024, 'b')));
      case 29: return x.end();
      case 30: trailers.add("grpc-status", "0"); return x.end(std::move(trailers));
      default: return next() & 1 ? x.consume(next() * 64) : x.reset(wire::Reset(next() % 4));
    }
  }

  std::string_view script_;
  size_t piece_, at_ = 0;
  int32_t last_ = -1;
  bool gone_ = false, closed_ = false, leaving_ = false;
  std::vector<base::Ticket> tickets_;
  support::FakeWire wire_;
  support::FakeIntake intake_;
  support::FakeSlabs slabs_;
  wire::Limits limits_;
  wire::PeerInfo peer_{"127.0.0.1:1", wire::Security::kCleartext};
  H2Frames frames_;
  wire::CodecEnv env_{intake_, slabs_, limits_};
  std::unique_ptr<wire::Codec> codec_ = wire::make_h2(env_, wire_, peer_);
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 4096) return 0;
  constexpr std::array<size_t, 4> kPieces{1 << 20, 1, 9, 100};
  Script({reinterpret_cast<const char*>(data) + 1, size - 1}, kPieces[data[0] & 3]).play();
  return 0;
}
