// Header blocks of one HTTP/2 connection, which may come again, between frames of any other kind: what services see of
// each is what a decoder says that knows of no block that came before. One frame a read, or all in one.
//
// Input: byte 0 chooses how the frames are cut. Then each byte is a step: its low three bits say what comes, its high
// bits are an argument; blocks that are made of the input are kept, to come again.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "require.h"
#include "support/fake_wire.h"
#include "support/split_feed.h"
#include "wire/text.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

using Head = std::vector<std::pair<std::string, std::string>>;

std::string frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  size_t n = payload.size();
  std::string out{char(n >> 16), char(n >> 8), char(n), char(type), char(flags)};
  for (int shift : {24, 16, 8, 0}) out += char(stream >> shift);
  return out += payload;
}

// Decodes one block after the other.
class Decoder {
 public:
  Decoder() { nghttp2_hd_inflate_new(&inflater_); }
  ~Decoder() { nghttp2_hd_inflate_del(inflater_); }
  Decoder(const Decoder&) = delete;
  // Nothing: it is malformed, and the connection ends.
  std::optional<Head> decode(std::string_view block) {
    Head head;
    auto* at = reinterpret_cast<const uint8_t*>(block.data());
    for (size_t left = block.size();;) {
      nghttp2_nv field;
      int flags = 0;
      ssize_t n = nghttp2_hd_inflate_hd2(inflater_, &field, &flags, at, left, 1);
      if (n < 0) return {};
      at += n, left -= size_t(n);
      if (flags & NGHTTP2_HD_INFLATE_EMIT) {
        auto text = [](const uint8_t* from, size_t size) { return std::string(from, from + size); };
        head.emplace_back(text(field.name, field.namelen), text(field.value, field.valuelen));
      }
      if (flags & NGHTTP2_HD_INFLATE_FINAL) break;
      if (left == 0 && !(flags & NGHTTP2_HD_INFLATE_EMIT)) break;
    }
    nghttp2_hd_inflate_end_headers(inflater_);
    return head;
  }

 private:
  nghttp2_hd_inflater* inflater_ = nullptr;
};

std::string_view find(const Head& head, std::string_view name) {
  for (const auto& [n, v] : head)
    if (n == name) return v;
  return {};
}

class Heads {
 public:
  Heads(std::string_view script, size_t piece) : script_(script), piece_(piece) {}

  void play() {
    feed("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, {}) + frame(4, 1, 0, {}));
    while (at_ < script_.size() && !broken_ && !codec_->finished()) step(next());
    send();
    codec_->closed();
    require(intake_.begun == intake_.closes, "every exchange closes once");
  }

 private:
  uint8_t next() { return at_ < script_.size() ? uint8_t(script_[at_++]) : 0; }
  std::string_view bytes(size_t n) {
    auto out = script_.substr(at_, n);
    at_ += out.size();
    return out;
  }
  void feed(std::string_view all) {
    support::feed_in_pieces(all, piece_, [this](auto piece) { codec_->feed(piece); });
    support::take_output(*codec_);
    if (std::exchange(wire_.tick_wanted, false)) codec_->tick(wire_.now());
  }

  // Method, scheme, path and authority, so that most blocks are requests.
  static std::string valid(std::string_view more) {
    return std::string(
               "\x83\x86\x84\x01\x01"
               "a") +
           std::string(more);
  }

  void step(uint8_t what) {
    const uint8_t argument = what >> 3;
    switch (what & 7) {
      case 0: return head(valid(bytes(argument)), Form::kWhole);
      case 1: return head(std::string(bytes(argument)), Form::kWhole);
      case 2:
      case 3: return head(before(argument), Form::kWhole);
      case 4: return head(before(argument), Form::kTwoFrames);
      case 5: return head(before(argument), Form::kPadded);
      case 6: return send();
      default: all_ += frame(6, 0, 0, "12345678"); return;
    }
  }
  std::string before(uint8_t age) const {
    return made_.empty() ? valid({}) : made_[made_.size() - 1 - age % made_.size()];
  }

  enum class Form : uint8_t { kWhole, kTwoFrames, kPadded };
  void head(std::string block, Form form) {
    const uint32_t stream = uint32_t(last_ += 2);
    const auto decoded = decoder_.decode(block);
    if (form == Form::kWhole)
      all_ += frame(1, 5, stream, block);
    else if (form == Form::kPadded)
      all_ += frame(1, 5 | 8, stream, '\2' + block + std::string(2, '\0'));
    else
      all_ +=
          frame(1, 1, stream, block.substr(0, block.size() / 2)) + frame(9, 4, stream, block.substr(block.size() / 2));
    made_.push_back(std::move(block));
    if (!decoded)
      broken_ = true;
    else
      expected_.push_back(*decoded);
    if (expected_.size() >= limits_.requests_per_read / 2) send();  // a read begins no more than so many
  }

  // Not every block is a request, but all that are seen come in the order of the blocks.
  void send() {
    const size_t before = intake_.seen.size();
    feed(std::exchange(all_, {}));
    size_t at = 0;
    for (size_t i = before; i < intake_.seen.size(); ++i) {
      while (at < expected_.size() && !same(intake_.seen[i], expected_[at])) ++at;
      require(at++ < expected_.size(), "a head that a decoder does not know");
    }
    if (!broken_ && !codec_->finished())
      for (const Head& head : expected_) plain_ += is_plain(head);
    const bool may_refuse = size_t(last_ + 1) / 2 > limits_.streams / 2;  // nobody answers: all of them are open
    if (!broken_ && !codec_->finished() && !may_refuse)
      require(intake_.seen.size() >= plain_, "a request was not seen");
    expected_.clear();
  }
  // So plain that nothing can be wrong with it.
  static bool is_plain(const Head& head) {
    return head.size() == 4 && head[0].second == "POST" && head[1].second == "http" && head[2].second == "/" &&
           head[3] == std::pair<std::string, std::string>(":authority", "a");
  }
  static bool same(const support::FakeIntake::Seen& seen, const Head& head) {
    if (seen.target != find(head, ":path")) return false;
    if (find(head, ":protocol").data() == nullptr && seen.method != find(head, ":method")) return false;
    Head fields, cookies;
    for (auto field : head) {
      field.second = wire::trim(field.second);
      if (field.first == ":protocol") fields.emplace_back("upgrade", field.second);
      if (field.first[0] == ':' || field.first == "host") continue;
      (field.first == "cookie" ? cookies : fields).push_back(field);
    }
    if (!cookies.empty()) {
      std::string joined;
      for (const auto& crumb : cookies) joined += (joined.empty() ? "" : "; ") + crumb.second;
      if (!joined.empty()) fields.emplace_back("cookie", joined);
    }
    return seen.fields == fields;
  }

  std::string_view script_;
  size_t piece_, at_ = 0;
  int32_t last_ = -1;
  bool broken_ = false;
  size_t plain_ = 0;
  std::string all_;
  std::vector<std::string> made_;
  std::vector<Head> expected_;
  Decoder decoder_;
  support::FakeWire wire_;
  support::FakeIntake intake_;
  support::FakeSlabs slabs_;
  wire::Limits limits_;
  wire::PeerInfo peer_{"127.0.0.1:1", wire::Security::kCleartext};
  wire::CodecEnv env_{intake_, slabs_, limits_};
  std::unique_ptr<wire::Codec> codec_ = wire::make_h2(env_, wire_, peer_);
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 4096) return 0;
  constexpr std::array<size_t, 4> kPieces{1 << 20, 1, 9, 100};
  Heads({reinterpret_cast<const char*>(data) + 1, size - 1}, kPieces[data[0] & 3]).play();
  return 0;
}
