// The HTTP/2 server beside one on libnghttp2: whatever a client sends, well formed or not and however it is cut, both
// have the same requests, send the same answers, and end alike.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "library_h2_server.h"
#include "random_h2_client.h"
#include "support/h2_client.h"
#include "support/h2_service.h"
#include "wire/h2_exchange.h"
#include "wire/h2_field_coding.h"

namespace weir::test {
namespace {

using wire::Exchange;

// One request as both know it.
struct Seen {
  std::string path, body;
  bool ended = false, over = false, answered = false;
};

// All that one of the two has sent.
struct Sent {
  Sent() { nghttp2_hd_inflate_new(&inflater); }
  ~Sent() { nghttp2_hd_inflate_del(inflater); }

  nghttp2_hd_inflater* inflater = nullptr;
  std::map<uint32_t, std::string> heads, bodies;  // by stream: fields and resets; content
  std::string control;                            // answers to PING and SETTINGS, GOAWAY
  std::map<uint32_t, uint64_t> windows;

  void take(const std::string& bytes) {
    for (const Frame& frame : frames_of(bytes)) take(frame);
  }

 private:
  void take(const Frame& frame) {
    std::string& of = heads[frame.stream];
    if (frame.type == 1) decode(frame.payload, of);
    if (frame.type == 0) bodies[frame.stream] += frame.payload;
    if (frame.type <= 1 && (frame.flags & kEndStream)) of += "|end";
    if (frame.type == 3) of += "|reset " + frame.payload;
    if ((frame.type == 4 || frame.type == 6) && (frame.flags & kAck)) control += "ack " + frame.payload + '\n';
    if (frame.type == 7) control += "goaway " + frame.payload.substr(0, 8);
    if (frame.type == 8) windows[frame.stream] += uint8_t(frame.payload[3]);
  }
  void decode(const std::string& block, std::string& to) {
    const bool good = wire::inflate_block(inflater, block, wire::BlockRest::kNone, [&](auto name, auto value) {
      if (name != "date") to += std::string(name) + '=' + std::string(value) + ';';
      return true;
    });
    ASSERT_TRUE(good);
  }
};

class Pair {
 public:
  explicit Pair(uint32_t seed) : client_(seed), library_(own_.limits, own_.wire.now()) {
    own_.intake.on_begin = [this](Exchange& x) { return begin(x); };
    own_.intake.on_closed = [this](Exchange& x) { exchanges_.erase(stream_of_.at(&x)), stream_of_.erase(&x); };
    give(client_.opening() + frame(8, 0, 0, u32(1 << 30)));  // streams share that window in another order
  }
  void run() {
    for (int turn = 0; turn < 60; ++turn) {
      const bool cut = client_.cut_turn();
      give(client_.turn(), cut ? 1 + client_.one_of(30) : SIZE_MAX);
      if (client_.one_of(2) == 0) act();
      if (client_.one_of(60) == 0) drain();
      compare();
      if (testing::Test::HasFailure() || own_.codec->finished()) break;
    }
    own_.codec->closed();
  }

 private:
  // Keeps a request's body.
  struct BodyReader final : wire::ExchangeListener {
    explicit BodyReader(Seen& to) : seen(to) {}
    void on_data(Exchange& x, std::span<const std::byte> piece) override {
      seen.body.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      x.consume(piece.size());
    }
    void on_end(Exchange&) override { seen.ended = true; }
    void on_drain(Exchange&) override {}
    void on_close(Exchange&, bool) override { seen.over = true; }
    Seen& seen;
  };

  wire::Plan begin(Exchange& x) {
    const auto stream = int32_t(static_cast<wire::H2Exchange&>(x).stream());
    Seen& seen = seen_[stream];
    seen.path = x.request().target;
    exchanges_[stream] = &x, stream_of_[&x] = stream;
    x.attach(std::make_unique<BodyReader>(seen));
    return {wire::BodyPlan::kStream, 0};
  }
  void give(const std::string& bytes, size_t step = SIZE_MAX) {
    last_ = bytes;
    for (size_t at = 0; at < bytes.size(); at += std::min(step, bytes.size() - at)) {
      const std::string part = bytes.substr(at, step);
      if (!own_.codec->finished()) own_.feed(part);
      library_.feed(part);
      pump();
    }
  }
  void pump() {
    own_sent_.take(own_.take());
    library_sent_.take(library_.output());
  }
  // Answers one whole request, or resets one.
  void act() {
    std::vector<int32_t> whole;
    for (auto& [stream, x] : exchanges_)
      if (seen_[stream].ended && !seen_[stream].answered) whole.push_back(stream);
    if (whole.empty()) return;
    const int32_t stream = whole[client_.one_of(whole.size())];
    Exchange& x = *exchanges_.at(stream);
    seen_[stream].answered = true;
    if (client_.one_of(8) == 0) {
      x.reset(wire::Reset::kInternal);
      library_.reset(stream, NGHTTP2_INTERNAL_ERROR);
    } else {
      const std::string body = text_of(client_.one_of(4) == 0 ? client_.one_of(60'000) : client_.one_of(30));
      const bool trailers = client_.one_of(2);
      wire::Fields end;
      if (trailers) end.add("grpc-status", "0");
      x.head({});
      x.body(base::Bytes::copy_of(body));
      x.end(std::move(end));
      library_.answer(stream, body, trailers);
    }
    pump();
  }
  void drain() {
    const bool refuse = std::exchange(drained_, true);
    own_.codec->drain(refuse ? wire::Drain::kRefuse : wire::Drain::kAnnounce);
    library_.drain(refuse);
    if (refuse) client_.refused();
    pump();
  }
  // The frames that came last, for who looks into a difference.
  std::string last() const {
    std::string out;
    for (const Frame& frame : frames_of(last_.starts_with("PRI") ? std::string_view(last_).substr(24) : last_)) {
      out += "type " + std::to_string(frame.type) + " flags " + std::to_string(frame.flags) + " stream " +
             std::to_string(frame.stream) + " of " + std::to_string(frame.payload.size()) + " bytes:";
      for (char c : frame.payload.substr(0, 80)) out += ' ' + std::to_string(int(uint8_t(c)));
      out += '\n';
    }
    return out;
  }
  // The library holds the end of an answer back behind a window that is used up.
  void open_windows() {
    for (auto& [stream, request] : library_.requests)
      if (!request.closed && request.answered && request.sent == request.answer.size())
        library_.feed(frame(8, 0, uint32_t(stream), u32(1)));
    pump();
  }
  // The last GOAWAY.
  static std::string end_of(const std::string& control) {
    return control.substr(std::min(control.rfind("goaway"), control.size()));
  }
  void compare() {
    compare_all();
    if (testing::Test::HasFatalFailure()) ADD_FAILURE() << last();
  }
  void compare_all() {
    if (!library_.over()) open_windows();
    ASSERT_EQ(own_.codec->finished(), library_.over()) << own_sent_.control << " / " << library_sent_.control;
    if (own_.codec->finished()) {  // what was under way before an error is not compared
      ASSERT_EQ(end_of(own_sent_.control), end_of(library_sent_.control));
      return;
    }
    ASSERT_EQ(own_sent_.control, library_sent_.control);
    for (auto& [stream, request] : library_.requests) {
      if (request.closed) client_.over(uint32_t(stream));
      ASSERT_EQ(seen_.count(stream), size_t(request.begun)) << stream;
      if (!request.begun || request.refused) continue;
      ASSERT_EQ(seen_[stream].path, request.path);
      ASSERT_EQ(seen_[stream].ended, request.ended) << stream;
      // The library hands on what breaks a stream's window, which resets it.
      ASSERT_TRUE((request.closed && !request.ended) || seen_[stream].body == request.body) << stream;
      ASSERT_EQ(seen_[stream].over, request.closed) << stream;
    }
    ASSERT_EQ(own_sent_.heads, library_sent_.heads);
    ASSERT_TRUE(own_sent_.bodies == library_sent_.bodies);
  }

  RandomClient client_;
  std::string last_;  // what was given last
  Server own_;
  LibraryH2Server library_;
  Sent own_sent_, library_sent_;
  std::map<int32_t, Seen> seen_;
  std::map<int32_t, Exchange*> exchanges_;
  std::map<Exchange*, int32_t> stream_of_;
  bool drained_ = false;
};

TEST(H2Server, RequestsAnswersAndEndsAreThoseOfTheLibrary) {
  for (uint32_t seed = 1; seed <= 2000; ++seed) {
    Pair(seed).run();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weir::test
