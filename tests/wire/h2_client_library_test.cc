// The HTTP/2 client beside one on libnghttp2: whatever a server sends, well formed or not and however it is cut, both
// have the same answers and end alike.
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "library_h2_client.h"
#include "random_h2_server.h"
#include "support/client_codec.h"
#include "support/h2_client.h"
#include "support/h2_service.h"
#include "wire/client_codec.h"

namespace weir::test {
namespace {

using wire::ClientCodec;
using wire::Fields;

// All that an answer is told, as a text.
struct Heard final : wire::ClientAnswer {
  std::string text, body;
  size_t takes = SIZE_MAX, waits = 0;
  bool over = false;

  static std::string list(const Fields& fields) {
    std::string out;
    for (size_t i = 0; i < fields.size(); ++i)
      out += std::string(fields[i].name) + '=' + std::string(fields[i].value) + ';';
    return out;
  }
  void on_head(int status, const Fields& fields) override {
    text += std::to_string(status) + ' ' + list(fields) + '\n';
  }
  size_t on_body(std::span<const std::byte> piece) override {
    body.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    const size_t taken = std::min(takes, piece.size());
    waits += piece.size() - taken;
    return taken;
  }
  void on_end(const Fields& trailers) override { text += "end " + list(trailers), over = true; }
  void on_failed(const base::Status& why) override {
    text += "failed " + std::string(base::name(why.code)), over = true;
  }
};

// One of the two clients, and what it has sent.
struct Side {
  explicit Side(std::unique_ptr<ClientCodec> its) : codec(std::move(its)) { nghttp2_hd_inflate_new(&inflater); }
  ~Side() { nghttp2_hd_inflate_del(inflater); }

  std::unique_ptr<ClientCodec> codec;
  std::deque<Heard> answers;
  nghttp2_hd_inflater* inflater = nullptr;
  std::map<uint32_t, std::string> sent;  // by stream: fields, resets
  std::map<uint32_t, std::string> bodies;
  uint64_t body_bytes = 0;               // of all of them
  std::string control;                   // answers to PING and SETTINGS, GOAWAY
  std::map<uint32_t, uint64_t> windows;  // given back, by stream
  bool preface = false;

  void pump() {
    std::string out = support::output_of(*codec);
    if (!std::exchange(preface, true)) out.erase(0, 24);
    for (const Frame& frame : frames_of(out)) take(frame);
  }

 private:
  void take(const Frame& frame) {
    std::string& of = sent[frame.stream];
    if (frame.type == 1) decode(frame.payload, of);
    if (frame.type == 0) bodies[frame.stream] += frame.payload;
    if (frame.type == 0 && (frame.flags & kEndStream)) bodies[frame.stream] += "|end";
    if (frame.type == 1 && (frame.flags & kEndStream)) of += "|end";
    if (frame.type == 3) of += "|reset " + frame.payload;
    if ((frame.type == 4 || frame.type == 6) && (frame.flags & kAck)) control += "ack " + frame.payload + '\n';
    if (frame.type == 7) control += "goaway";
    if (frame.type == 8) windows[frame.stream] += u32_of(frame.payload);
  }
  static uint64_t u32_of(const std::string& payload) {
    auto at = [&](size_t i) { return uint64_t(uint8_t(payload[i])); };
    return at(0) << 24 | at(1) << 16 | at(2) << 8 | at(3);
  }
  // Deadlines are sent behind the other fields.
  void decode(std::string block, std::string& to) {
    std::multiset<std::string> fields;
    for (;;) {
      nghttp2_nv nv;
      int flags = 0;
      const ssize_t n = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, reinterpret_cast<const uint8_t*>(block.data()),
                                               block.size(), 1);
      ASSERT_GE(n, 0);
      block.erase(0, size_t(n));
      if (flags & NGHTTP2_HD_INFLATE_EMIT)
        fields.insert(std::string(nv.name, nv.name + nv.namelen) + '=' + std::string(nv.value, nv.value + nv.valuelen));
      if (flags & NGHTTP2_HD_INFLATE_FINAL) break;
    }
    nghttp2_hd_inflate_end_headers(inflater);
    for (const std::string& field : fields) to += field + ';';
  }
};

class Pair {
 public:
  explicit Pair(uint32_t seed) : server_(seed) {
    both([](Side& side) { side.pump(); });
    give(frame(4, 0, 0, "") + frame(8, 0, 0, u32(1 << 30)));  // streams share that window in another order
    if (server_.acknowledges()) give(frame(4, kAck, 0, ""));
  }
  void run() {
    for (int turn = 0; turn < 60; ++turn) {
      if (server_.one_of(3) == 0) ask();
      const bool cut = server_.cut_turn();
      give(server_.turn(), cut ? 1 + server_.one_of(30) : SIZE_MAX);
      if (server_.one_of(10) == 0) act();
      compare();
      for (size_t i = 0; i < own_.answers.size(); ++i)
        if (own_.answers[i].over) server_.over(uint32_t(2 * i + 1));
      if (testing::Test::HasFailure() || own_.codec->finished()) break;
    }
    const auto gone = base::failure(base::Code::kUnavailable, "gone");
    both([&](Side& side) { side.codec->closed(gone); });
    compare();
  }

 private:
  template <class Do>
  void both(Do&& act) {
    act(own_), act(library_);
  }
  void ask() {
    EXPECT_EQ(own_.codec->has_room(), library_.codec->has_room());
    if (!own_.codec->has_room() || !library_.codec->has_room()) return;
    wire::ClientRequest request{server_.one_of(10) == 0 ? "HEAD" : "POST", "http", "h", "/p", {}, {}};
    request.fields.add("te", "trailers");
    if (server_.one_of(4) == 0) request.fields.add("grpc-timeout", std::to_string(server_.one_of(100)) + "m");
    if (server_.one_of(10) == 0) request.fields.add("x-long", text_of(server_.one_of(5000)));
    const size_t size = server_.one_of(3) == 0 ? server_.one_of(200'000) : server_.one_of(100);
    if (size > 0) request.body = base::Bytes::adopt(text_of(size));
    const size_t takes = server_.one_of(3) == 0 ? server_.one_of(20) : SIZE_MAX;
    both([&](Side& side) {
      side.answers.emplace_back().takes = takes;
      side.codec->send(request, side.answers.back());
      side.pump();
    });
    server_.asked(uint32_t(2 * own_.answers.size() - 1));
  }
  void give(const std::string& bytes, size_t step = SIZE_MAX) {
    last_ = bytes;
    both([&](Side& side) {
      support::feed(*side.codec, bytes, step);
      side.pump();
    });
  }
  // Cancels one, or lets it go on.
  void act() {
    if (own_.answers.empty()) return;
    const size_t which = server_.one_of(own_.answers.size());
    const bool cancels = server_.one_of(3) == 0;
    both([&](Side& side) {
      Heard& answer = side.answers[which];
      if (answer.over) return;
      if (cancels) {
        side.codec->cancel(answer);
        answer.over = true;
      } else {
        side.codec->consume(answer, std::exchange(answer.waits, 0));
      }
      side.pump();
    });
  }
  // The frames that came last, for who looks into a difference.
  std::string last() const {
    std::string out;
    for (const Frame& frame : frames_of(last_)) {
      out += "type " + std::to_string(frame.type) + " flags " + std::to_string(frame.flags) + " stream " +
             std::to_string(frame.stream) + " of " + std::to_string(frame.payload.size()) + " bytes:";
      for (char c : frame.payload.substr(0, 80)) out += ' ' + std::to_string(int(uint8_t(c)));
      out += '\n';
    }
    return out;
  }
  // An answer that is malformed, and is reset by the server as well, has two reasons to fail: either may come first.
  std::string told(const std::string& text) const {
    const auto frames = frames_of(last_);
    const bool reset = std::any_of(frames.begin(), frames.end(), [](const Frame& frame) { return frame.type == 3; });
    return reset ? text.substr(0, text.find("failed") == text.npos ? text.npos : text.find("failed") + 6) : text;
  }
  void compare() {
    SCOPED_TRACE(last());
    for (size_t i = 0; i < own_.answers.size(); ++i) {
      ASSERT_EQ(told(own_.answers[i].text), told(library_.answers[i].text)) << i;
      ASSERT_EQ(own_.answers[i].body, library_.answers[i].body) << i;
    }
    for (size_t i = 0; i < own_.answers.size(); ++i) own_.answers[i].text = library_.answers[i].text;
    ASSERT_EQ(own_.codec->finished(), library_.codec->finished());
    ASSERT_EQ(own_.codec->idle(), library_.codec->idle());
    if (own_.codec->finished()) return;  // what was queued behind an error is not compared
    ASSERT_EQ(own_.control, library_.control);
    ASSERT_EQ(own_.sent, library_.sent);
    ASSERT_EQ(own_.bodies, library_.bodies);
  }

  RandomServer server_;
  std::string last_;  // what was given last
  Side own_{wire::make_h2_client()}, library_{make_library_h2_client()};
};

TEST(H2Client, AnswersAndEndsAreThoseOfTheLibrary) {
  for (uint32_t seed = 1; seed <= 2000; ++seed) {
    Pair(seed).run();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weir::test
