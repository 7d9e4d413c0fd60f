// Any bytes as what an HTTP/2 server sends to a client of ours with some requests open: however they are cut, the same
// answers come of them and the same is sent; every request is told its end exactly once, and memory is bounded.
//
// Input: byte 0 chooses how requests are treated, the rest is the server's, behind its SETTINGS where bit 0 is not set.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "h2_frames.h"
#include "require.h"
#include "support/client_codec.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

constexpr std::string_view kPreface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
enum Choice : uint8_t { kBare = 1, kHoards = 2, kNextAtEnd = 4, kLateBody = 8, kReadsLate = 16 };

class Fuzzed;

struct Asked final : wire::ClientAnswer {
  explicit Asked(Fuzzed& its) : fuzzed(its) {}

  void on_head(int status, const wire::Fields& fields) override {
    require(!over && !has_head, "one head, before the end");
    require(status >= 200 && status <= 999, "a final status");
    require(fields.bytes() <= wire::ClientCodec::kMostFields, "fields are bounded");
    has_head = true;
    add(std::to_string(status), fields);
  }
  size_t on_body(std::span<const std::byte> piece) override;
  void on_end(const wire::Fields& trailers) override {
    require(has_head, "an answer has a head");
    add("end", trailers);
    told_end();
  }
  void on_failed(const base::Status& why) override {
    require(!why.ok() && !why.text.empty(), "a failure says why");
    failed = true;
    heard += "failed " + why.text;
    told_end();
  }
  void add(std::string_view what, const wire::Fields& fields) {
    heard.append(what);
    for (size_t i = 0; i < fields.size(); ++i)
      heard.append(fields[i].name).append("=").append(fields[i].value).append(";");
  }
  void told_end();

  Fuzzed& fuzzed;
  std::string heard, body;
  size_t waits = 0;
  bool has_head = false, failed = false, over = false;
};

class Fuzzed {
 public:
  explicit Fuzzed(uint8_t choice) : choice_(choice) {
    for (size_t i = 0; i < kRequests; ++i) ask();
    codec_->cancel(*asked_[1]);
    asked_[1]->over = true;
    read();
    if (!(choice & kBare)) give(std::string_view("\0\0\0\4\0\0\0\0\0\0\0\0\4\1\0\0\0\0", 18), 18);
  }
  void give(std::string_view bytes, size_t step) {
    for (size_t at = 0; at < bytes.size(); at += step) {
      support::feed(*codec_, bytes.substr(at, step));
      if (choice_ & kReadsLate) continue;
      read();
    }
  }
  std::string result() {
    for (size_t i = 0; i < asked_.size(); ++i)
      if (!asked_[i]->over) codec_->consume(*asked_[i], std::exchange(asked_[i]->waits, 0));
    read();
    require(frames_.whole(), "whole frames are sent");
    codec_->closed(base::failure(base::Code::kUnavailable, "gone"));
    require(codec_->finished() && codec_->idle() && !codec_->has_room(), "a connection that has gone does nothing");
    std::string out = finished_ ? "finished " : "open ";
    for (const auto& asked : asked_) {
      require(asked->over, "every request is told its end");
      out += '|' + asked->heard;
      if (!asked->failed) out += ':' + asked->body;  // of one that breaks off, more may come in small pieces
    }
    return out;
  }
  bool hoards() const { return choice_ & kHoards; }
  void ended() {
    if ((choice_ & kNextAtEnd) && asked_.size() < 3 * kRequests && codec_->has_room()) ask();
  }

 private:
  static constexpr size_t kRequests = 5, kMostWaiting = 2 << 20;

  void ask() {
    wire::ClientRequest request{asked_.size() == 2 ? "HEAD" : "POST", "http", "h", "/p", {}, {}};
    request.fields.add("te", "trailers");
    if (asked_.size() % 2 == 0)
      request.body = base::Bytes::adopt(std::string((choice_ & kLateBody) ? 80'000 : 10, 'b'));
    asked_.push_back(std::make_unique<Asked>(*this));
    codec_->send(request, *asked_.back());
  }
  void read() {
    std::string sent = support::output_of(*codec_);
    finished_ = finished_ || codec_->finished();
    if (!began_ && sent.size() >= kPreface.size()) {
      require(sent.starts_with(kPreface), "the preface comes first");
      sent.erase(0, kPreface.size()), began_ = true;
    }
    require(sent.size() < kMostWaiting, "what waits for the socket is bounded");
    frames_.take(sent);
  }

  const uint8_t choice_;
  bool began_ = false, finished_ = false;
  H2Frames frames_;
  std::vector<std::unique_ptr<Asked>> asked_;
  std::unique_ptr<wire::ClientCodec> codec_ = wire::make_h2_client();
};

size_t Asked::on_body(std::span<const std::byte> piece) {
  require(!over && has_head, "a body lies between head and end");
  body.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  const size_t taken = fuzzed.hoards() ? piece.size() / 2 : piece.size();
  waits += piece.size() - taken;
  require(waits <= size_t(4) << 20, "no more waits than the window");
  return taken;
}

void Asked::told_end() {
  require(!over, "an end is told once");
  over = true;
  fuzzed.ended();
}

std::string run(uint8_t choice, std::string_view bytes, size_t step) {
  Fuzzed fuzzed(choice);
  fuzzed.give(bytes, step);
  return fuzzed.result();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1 || size > (64 << 10)) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const uint8_t choice = data[0] | kReadsLate;  // so that cuts change nothing of what waits
  const std::string whole = run(choice, bytes, size);
  for (size_t step : {size_t(1), size_t(7)}) require(run(choice, bytes, step) == whole, "cuts change nothing");
  run(uint8_t(data[0] & ~kReadsLate), bytes, 9);
  return 0;
}
