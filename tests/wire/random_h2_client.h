// An HTTP/2 client that sends what comes into its mind, from a seed: much of it right, some of it hostile, some of it
// wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "support/h2_client.h"
#include "support/h2_service.h"

namespace weir::test {

class RandomClient {
 public:
  explicit RandomClient(uint32_t seed) : random_(seed), wild_(one_of(3) == 0) {
    nghttp2_hd_deflate_new(&deflater_, 4096);
  }
  ~RandomClient() { nghttp2_hd_deflate_del(deflater_); }
  RandomClient(const RandomClient&) = delete;

  size_t one_of(size_t n) { return random_() % n; }
  // The stream has closed.
  void over(uint32_t stream) { open_.erase(stream), alive_.erase(stream); }
  // New streams are not taken any more.
  void refused() { refused_ = true; }
  std::string opening() {
    acknowledged_ = one_of(4) != 0;
    return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, one_of(2) ? setting() : "") +
           (acknowledged_ ? frame(4, kAck, 0, "") : "");
  }
  // The next turn comes in pieces. The library counts a CONTINUATION frame anew with each piece of its head.
  bool cut_turn() { return cut_ = one_of(3) == 0; }
  // The frames of one turn. One that is wrong comes alone: behind something else that is, one of the two servers may
  // not look at it.
  std::string turn() {
    if (one_of(wild_ ? 12 : 400) == 0) return wrong();
    std::string out;
    for (size_t n = 1 + one_of(4); n > 0; --n) out += one_of(4) == 0 ? control() : request();
    return out;
  }

 private:
  uint32_t any_of(const std::map<uint32_t, bool>& streams) {
    if (streams.empty()) return uint32_t(one_of(12));
    auto at = streams.begin();
    std::advance(at, one_of(streams.size()));
    return at->first;
  }
  std::string request() {
    if (open_.empty() || one_of(3) == 0) return begin();
    const uint32_t stream = any_of(open_);
    const bool ends = one_of(3) == 0;
    if (ends) open_.erase(stream);
    if (ends && one_of(4) == 0) return headers(stream, trailers(), true);
    if (wild_ && one_of(40) == 0) return headers(stream, trailers(), false);
    const size_t size = one_of(8) == 0 ? one_of(16'000) : one_of(40);
    const std::string content(size, char('a' + one_of(26)));
    const int flags = ends ? kEndStream : 0;
    if (one_of(6) != 0) return frame(0, flags, stream, content);
    const size_t padding = one_of(200);
    return frame(0, flags | kPadded, stream, char(padding) + content + std::string(padding, '\0'));
  }
  std::string begin() {
    if (one_of(30) == 0) next_ += 2 * uint32_t(one_of(5));  // ids may be left out
    const uint32_t stream = std::exchange(next_, next_ + 2);
    const bool ends = one_of(3) == 0;
    if (!ends) open_[stream] = true;
    alive_[stream] = true;
    return headers(stream, head(ends), ends);
  }
  Headers head(bool ends) {
    Headers out = one_of(2) ? kPost : kGet;
    if (one_of(2)) out = {{":method", "POST"}, {":scheme", "http"}, {":path", "/same"}, {":authority", "h"}};
    if (one_of(8) == 0) out.emplace_back("content-length", std::to_string(ends && one_of(4) ? 0 : one_of(60)));
    static const Headers kAll{{"te", "trailers"},     {"x-long", std::string(300, 'y')},
                              {"spaced", " a b "},    {"x", ""},
                              {"priority", "u=1, i"}, {"priority", "u=9"},
                              {"cookie", "a=b"},      {"cookie", "c=d"}};
    while (one_of(4) == 0) out.push_back(kAll[one_of(kAll.size())]);
    if (wild_ && one_of(8) == 0) spoil(out);
    if (one_of(30) == 0) out.emplace_back("random", std::to_string(one_of(1000)));
    return out;
  }
  Headers trailers() {
    Headers out{{"x-trailer", std::to_string(one_of(3))}};
    if (wild_ && one_of(8) == 0) spoil(out);
    return out;
  }
  void spoil(Headers& out) {
    static const Headers kBad{{"te", "gzip"},
                              {"connection", "close"},
                              {"keep-alive", "1"},
                              {"Upper", "1"},
                              {"a b", "1"},
                              {"v", "1\n2"},
                              {"", "1"},
                              {":status", "200"},
                              {":path", "/"},
                              {"transfer-encoding", "x"},
                              {"upgrade", "x"},
                              {":scheme", "1"},
                              {":method", "A B"},
                              {"content-length", "-1"},
                              {"n\xc3", "1"},
                              {":", "1"},
                              {":path", "x"},
                              {"proxy-connection", "x"},
                              {"host", "a/b"},
                              {":authority", ""},
                              {"content-length", "5"},
                              {"v", std::string("1\0", 2)}};
    if (one_of(4) == 0) out.erase(out.begin() + std::ptrdiff_t(one_of(out.size())));
    out.insert(out.begin() + std::ptrdiff_t(one_of(out.size() + 1)), kBad[one_of(kBad.size())]);
  }
  std::string encode(const Headers& fields) {
    if (one_of(3) == 0) return block(fields);
    std::vector<nghttp2_nv> list;
    for (const auto& [n, v] : fields)
      list.push_back({(uint8_t*)n.data(), (uint8_t*)v.data(), n.size(), v.size(), NGHTTP2_NV_FLAG_NONE});
    std::string out(nghttp2_hd_deflate_bound(deflater_, list.data(), list.size()), '\0');
    const ssize_t n = nghttp2_hd_deflate_hd(deflater_, (uint8_t*)out.data(), out.size(), list.data(), list.size());
    out.resize(size_t(n));
    return out;
  }
  std::string headers(uint32_t stream, const Headers& fields, bool ends) {
    std::string text = encode(fields), front;
    int flags = ends ? kEndStream : 0;
    const size_t padding = one_of(50);
    const bool padded = one_of(10) == 0, priority = one_of(10) == 0;
    if (padded) front += char(padding), flags |= kPadded;
    if (priority) front += u32(wild_ && one_of(10) == 0 ? stream : 0) + "x", flags |= NGHTTP2_FLAG_PRIORITY;
    const std::string back(padded ? padding : 0, '\0');
    if (cut_ || one_of(8) != 0) return frame(1, flags | kEndHeaders, stream, front + text + back);
    const size_t cut = one_of(text.size() + 1);
    std::string out = frame(1, flags, stream, front + text.substr(0, cut) + back);
    text.erase(0, cut);
    for (size_t left = one_of(wild_ && one_of(4) == 0 ? 12 : 4); left > 0; --left) {
      const size_t part = one_of(text.size() + 1);
      out += frame(9, 0, stream, text.substr(0, part));
      text.erase(0, part);
    }
    if (wild_ && one_of(30) == 0) out += control();
    return out + frame(9, kEndHeaders, stream, text);
  }
  std::string control() {
    switch (one_of(9)) {
      case 0: return frame(6, one_of(4) == 0 ? kAck : 0, 0, "12345678");
      case 1: return frame(8, 0, one_of(2) ? 0 : any_of(alive_), u32(uint32_t(1 + one_of(70'000))));
      case 2: return frame(2, 0, any_of(alive_) | 1, u32(0) + "x");
      case 3: return frame(int(10 + one_of(240)), int(one_of(256)), uint32_t(one_of(9)), std::string(one_of(50), 'u'));
      case 4: nghttp2_hd_deflate_change_table_size(deflater_, one_of(2) ? 4096 : one_of(4096)); return {};
      case 5: {
        const uint32_t stream = any_of(alive_);
        if (!alive_.count(stream)) return {};
        over(stream);
        return frame(3, 0, stream, u32(one_of(2) ? 8 : 0));
      }
      case 6: return one_of(3) == 0 ? frame(4, 0, 0, setting()) : std::string();
      case 7: return acknowledged_ || one_of(3) ? std::string() : (acknowledged_ = true, frame(4, kAck, 0, ""));
      default: return one_of(40) ? std::string() : frame(7, 0, 0, u32(0) + u32(0) + "debug");
    }
  }
  std::string setting() {
    static const std::pair<int, uint32_t> kGood[]{{1, 0},      {1, 100},     {1, 4096}, {1, 100'000}, {3, 1000},
                                                  {4, 65'535}, {4, 100'000}, {4, 10},   {5, 16'384},  {5, 40'000},
                                                  {6, 100},    {2, 0},       {2, 1},    {8, 0},       {77, 5}};
    static const std::pair<int, uint32_t> kBad[]{{4, 0x80000000u}, {5, 100}, {5, 1u << 24}, {2, 2}, {8, 2}, {9, 2}};
    auto [id, value] = wild_ && one_of(10) == 0 ? kBad[one_of(6)] : kGood[one_of(15)];
    return std::string{0, char(id)} + u32(value);
  }
  std::string wrong() {
    const uint32_t alive = any_of(alive_), later = next_ + 2 * uint32_t(one_of(3));
    const size_t kind = one_of(26);
    // The padding of what nobody takes is not looked at by the library.
    if ((kind == 13 || kind == 22) && (open_.empty() || refused_)) return {};
    switch (kind) {
      case 0: return frame(0, 0, 0, "x");
      case 1: return frame(5, kEndHeaders, alive, u32(2) + block(kGet));
      case 2: return frame(6, 0, 0, "short");
      case 3: return frame(8, 0, alive, u32(0));
      case 4: return frame(9, kEndHeaders, alive, block({{"x", "y"}}));
      case 5: over(alive); return frame(8, 0, alive, u32(0x7fffffff));
      case 6: return frame(4, kAck, 0, "");
      case 7: return frame(1, kEndHeaders, std::exchange(next_, next_ + 2), "\xff\xff\xff\xff\xff\xff");
      case 8: return frame(4, 0, uint32_t(one_of(2)), "12345");
      case 9: return frame(3, 0, later, u32(2));
      case 10: return frame(2, 0, 0, "12345");
      case 11: return frame(1, kEndHeaders | kPadded, std::exchange(next_, next_ + 2), std::string(1, '\x7f') + "xx");
      case 12: return frame(7, 0, 1, u32(0) + u32(0));
      case 13: return frame(0, kPadded, any_of(open_), std::string(1, char(250)) + text_of(one_of(200)));
      case 14: return frame(0, int(one_of(2)), later, "x");
      case 15: return headers(2 * uint32_t(one_of(5)), head(true), true);
      case 16: return frame(0, 0, any_of(open_), std::string(1 << 20, 'x') + std::string(one_of(3), 'y'));
      case 17: return frame(8, 0, 0, u32(one_of(2) ? 0 : 0x7fffffff));
      case 18: return frame(8, 0, later, u32(1));
      case 19: return frame(3, 0, alive, "123");
      case 20: return frame(6, 0, 3, "12345678");
      case 21: return frame(1, kEndHeaders | kPadded, std::exchange(next_, next_ + 2), "");
      case 22: return frame(0, kPadded, any_of(open_), "");
      case 23: return frame(4, kAck, 0, setting());
      case 24: {
        std::string many;
        for (size_t n = 30 + one_of(6); n > 0; --n) many += std::string("\0\x4d", 2) + u32(uint32_t(n));
        return frame(4, 0, 0, many);
      }
      default: {
        const int type = int(one_of(10)), flags = int(one_of(256));
        std::string payload = text_of(one_of(20));
        // The library minds which stream a GOAWAY names, and padding before the frame's length.
        if (type == 7) std::fill_n(payload.begin(), std::min<size_t>(4, payload.size()), '\0');
        if (type == 1 && (flags & kPadded) && payload.size() < 6) return {};
        return frame(type, flags, uint32_t(one_of(12)), payload);
      }
    }
  }

  std::mt19937 random_;
  const bool wild_;
  bool acknowledged_ = false, cut_ = false, refused_ = false;
  uint32_t next_ = 1;
  std::map<uint32_t, bool> open_, alive_;  // streams whose request has not ended; that have not closed
  nghttp2_hd_deflater* deflater_ = nullptr;
};

}  // namespace weir::test
