// An HTTP/2 server that sends what comes into its mind, from a seed: much of it right, much of it cut, some of it
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

class RandomServer {
 public:
  explicit RandomServer(uint32_t seed) : random_(seed), wild_(one_of(3) == 0) {
    nghttp2_hd_deflate_new(&deflater_, 4096);
  }
  ~RandomServer() { nghttp2_hd_deflate_del(deflater_); }

  size_t one_of(size_t n) { return random_() % n; }
  void asked(uint32_t stream) { open_[stream] = 0; }
  void over(uint32_t stream) { open_.erase(stream); }
  // The next turn comes in pieces. The library counts a CONTINUATION frame anew with each piece of its head.
  bool cut_turn() { return cut_ = one_of(3) == 0; }
  bool acknowledges() { return acknowledged_ = one_of(3) != 0; }
  // The frames of one turn. One that is wrong comes alone: behind something else that is, the library may not look at
  // it.
  std::string turn() {
    if (one_of(wild_ ? 10 : 300) == 0) return wrong();
    std::string out;
    for (size_t n = 1 + one_of(4); n > 0; --n) out += one_of(5) == 0 ? control() : answer();
    return out;
  }

 private:
  enum : int { kHeadSent = 1 };

  uint32_t any_stream() {
    if (open_.empty()) return uint32_t(one_of(12));
    auto at = open_.begin();
    std::advance(at, one_of(open_.size()));
    return at->first;
  }
  std::string answer() {
    if (open_.empty()) return {};
    const uint32_t stream = any_stream();
    const int state = open_.count(stream) ? open_[stream] : int(one_of(2));
    const bool ends = one_of(3) == 0;
    if (state == 0) {
      const bool early = one_of(8) == 0;
      if (!early && open_.count(stream)) open_[stream] = kHeadSent;
      const bool last = ends && (!early || one_of(20) == 0);
      if (last) open_.erase(stream);
      return headers(stream, early ? early_head() : head(), last);
    }
    if (ends) open_.erase(stream);
    if (ends && one_of(4) != 0) return headers(stream, trailers(), one_of(30) != 0);
    if (!ends && one_of(20) == 0 && wild_) return headers(stream, trailers(), false);
    return data(stream, ends);
  }
  std::string data(uint32_t stream, bool ends) {
    const size_t size = one_of(10) == 0 ? one_of(16'000) : one_of(40);
    std::string content(size, char('a' + one_of(26)));
    const int flags = ends ? kEndStream : 0;
    if (one_of(6) != 0) return frame(0, flags, stream, content);
    const size_t padding = one_of(200);
    return frame(0, flags | kPadded, stream, char(padding) + content + std::string(padding, '\0'));
  }
  Headers early_head() {
    Headers out{{":status", one_of(20) == 0 ? "101" : "103"}, {"link", "x"}};
    if (one_of(20) == 0) out.emplace_back("content-length", "3");
    return out;
  }
  Headers head() {
    static const char* const kStatus[]{"200", "200", "200", "200",  "200", "404", "204",
                                       "304", "999", "20",  "0200", "abc", "",    "+20"};
    Headers out{{":status", kStatus[one_of(wild_ ? 14 : 8)]}, {"content-type", "application/grpc"}};
    if (one_of(6) == 0) out.emplace_back("content-length", std::to_string(one_of(3) == 0 ? 0 : one_of(60)));
    spice(out);
    return out;
  }
  Headers trailers() {
    Headers out{{"grpc-status", std::to_string(one_of(10) == 0 ? 13 : 0)}};
    spice(out);
    return out;
  }
  void spice(Headers& out) {
    static const Headers kAll{
        {"date", "today"}, {"x-long", std::string(300, 'y')}, {"spaced", " a b "}, {"te", "trailers"}, {"x", ""}};
    static const Headers kBad{{"te", "gzip"},
                              {"connection", "close"},
                              {"keep-alive", "1"},
                              {"Upper", "1"},
                              {"a b", "1"},
                              {"v", "1\n2"},
                              {"", "1"},
                              {":status", "200"},
                              {":path", "/"},
                              {"transfer-encoding", "chunked"},
                              {"upgrade", "x"},
                              {"proxy-connection", "x"},
                              {"content-length", "x"},
                              {"content-length", "-1"},
                              {"content-length", "5"},
                              {"n\xc3", "1"},
                              {":", "1"},
                              {"host", "a/b"},
                              {"v", std::string("1\0", 2)}};
    while (one_of(4) == 0) out.push_back(kAll[one_of(kAll.size())]);
    if (wild_ && one_of(8) == 0)
      out.insert(out.begin() + std::ptrdiff_t(one_of(out.size() + 1)), kBad[one_of(kBad.size())]);
    if (one_of(60) == 0) out.emplace_back("random", std::to_string(one_of(1000)));
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
    switch (one_of(8)) {
      case 0: return frame(6, one_of(4) == 0 ? kAck : 0, 0, "12345678");
      case 1: return frame(8, 0, one_of(2) ? 0 : any_stream(), u32(uint32_t(1 + one_of(70'000))));
      case 2: return frame(2, 0, any_stream() | 1, u32(0) + "x");
      case 3: return frame(int(10 + one_of(240)), int(one_of(256)), uint32_t(one_of(9)), std::string(one_of(50), 'u'));
      case 4:
        if (one_of(4) != 0) return {};
        nghttp2_hd_deflate_change_table_size(deflater_, one_of(2) ? 4096 : one_of(4096));
        return {};
      case 5: {
        const uint32_t stream = any_stream();
        open_.erase(stream);
        static const uint32_t kCodes[]{0, 0, 2, 7, 8, 11, 1000};
        return frame(3, 0, stream, u32(kCodes[one_of(7)]));
      }
      case 6: return frame(4, 0, 0, setting());
      default:
        if (one_of(20) != 0) return {};
        return frame(
            7, 0, 0,
            u32(uint32_t(one_of(4) == 0 ? 0x7fffffff : 2 * one_of(30) + 1)) + u32(uint32_t(one_of(2))) + "debug");
    }
  }
  std::string setting() {
    static const std::pair<int, uint32_t> kGood[]{{1, 0},      {1, 100},     {1, 4096}, {1, 100'000}, {3, 1000},
                                                  {4, 65'535}, {4, 100'000}, {4, 10},   {5, 16'384},  {5, 40'000},
                                                  {6, 100},    {2, 0},       {9, 1},    {8, 0},       {77, 5}};
    static const std::pair<int, uint32_t> kBad[]{{4, 0x80000000u}, {5, 100}, {5, 1u << 24}, {2, 1},
                                                 {2, 2},           {8, 2},   {9, 2},        {3, 1}};
    auto [id, value] = wild_ && one_of(10) == 0 ? kBad[one_of(8)] : kGood[one_of(15)];
    return std::string{0, char(id)} + u32(value);
  }
  std::string wrong() {
    if (open_.empty()) return frame(0, 0, uint32_t(one_of(12)), "x");  // less is looked at of streams that are gone
    switch (one_of(17)) {
      case 14: return frame(0, int(one_of(2)), uint32_t(one_of(12)), "x");
      case 15: return headers(uint32_t(one_of(12)), head(), one_of(2) == 0);
      case 13: return frame(0, kPadded, any_stream(), std::string(1, char(250)) + text_of(one_of(200)));
      case 0: return frame(0, 0, 0, "x");
      case 1:  // before it knows our SETTINGS the library lets it push
        return acknowledged_ ? frame(5, kEndHeaders, any_stream(), u32(2) + block(kGet)) : std::string();
      case 2: return frame(6, 0, 0, "short");
      case 3: return frame(8, 0, any_stream(), u32(0));
      case 4: return frame(9, kEndHeaders, any_stream(), block({{"x", "y"}}));
      case 5: {
        const uint32_t stream = any_stream();
        open_.erase(stream);
        return frame(8, 0, stream, u32(0x7fffffff));
      }
      case 6: return frame(4, kAck, 0, "");
      case 7: return frame(1, kEndHeaders, any_stream(), "\xff\xff\xff\xff\xff\xff");
      case 8: return frame(4, 0, uint32_t(one_of(2)), "12345");
      case 9: return frame(3, 0, 4, u32(2));
      case 10: return frame(2, 0, 0, "12345");
      case 11: return frame(1, kEndHeaders | kPadded, any_stream(), std::string(1, '\x7f') + "xx");
      case 12: return frame(7, 0, 0, u32(4) + u32(0));
      default: return frame(0, 0, any_stream(), std::string(300'000, 'x'));
    }
  }

  std::mt19937 random_;
  const bool wild_;
  bool acknowledged_ = false, cut_ = false;
  std::map<uint32_t, int> open_;  // streams, and what has been sent of their answers
  nghttp2_hd_deflater* deflater_ = nullptr;
};

}  // namespace weir::test
