// The other end of an H2 codec in memory: a client on libnghttp2, and frames by hand for what no client sends.
#pragma once

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include "support/fake_wire.h"
#include "wire/codec.h"

namespace weir::test {

using Headers = std::vector<std::pair<std::string, std::string>>;

// One frame: RFC 9113 §4.1.
inline std::string frame(int type, int flags, uint32_t stream, std::string_view payload) {
  size_t n = payload.size();
  std::string out{char(n >> 16), char(n >> 8), char(n), char(type), char(flags)};
  for (int shift : {24, 16, 8, 0}) out += char(stream >> shift);
  return out.append(payload);
}

inline std::string u32(uint32_t v) { return {char(v >> 24), char(v >> 16), char(v >> 8), char(v)}; }

// A header block of literals without indexing, short names and values (RFC 7541 §6.2.2).
inline std::string block(const Headers& fields) {
  std::string out;
  auto text = [&](std::string_view s) {
    if (s.size() < 127) {
      out += char(s.size());
    } else {
      size_t rest = s.size() - 127;
      out += char(127);
      for (; rest >= 128; rest >>= 7) out += char((rest & 127) | 128);
      out += char(rest);
    }
    out += s;
  };
  for (const auto& [name, value] : fields) {
    out += '\0';
    text(name), text(value);
  }
  return out;
}

inline const Headers kGet{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "h"}};
inline const Headers kPost{{":method", "POST"}, {":scheme", "http"}, {":path", "/p"}, {":authority", "h"}};
inline Headers with(Headers base, const Headers& more) {
  base.insert(base.end(), more.begin(), more.end());
  return base;
}

constexpr int kEndStream = 1, kAck = 1, kEndHeaders = 4, kPadded = 8;
inline std::string get(uint32_t stream) { return frame(1, kEndHeaders | kEndStream, stream, block(kGet)); }
inline std::string post(uint32_t stream) { return frame(1, kEndHeaders, stream, block(kPost)); }
inline std::string rst(uint32_t stream) { return frame(3, 0, stream, u32(8)); }
inline std::string opening() { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "") + frame(4, kAck, 0, ""); }

struct Frame {
  int type, flags;
  uint32_t stream;
  std::string payload;
};
inline std::vector<Frame> frames_of(std::string_view bytes) {
  std::vector<Frame> out;
  auto at = [&](size_t i) { return uint32_t(uint8_t(bytes[i])); };
  while (bytes.size() >= 9) {
    size_t n = at(0) << 16 | at(1) << 8 | at(2);
    out.push_back({int(at(3)), int(at(4)), at(5) << 24 | at(6) << 16 | at(7) << 8 | at(8), {}});
    EXPECT_LE(9 + n, bytes.size()) << "cut frame";
    out.back().payload = bytes.substr(9, n);
    bytes.remove_prefix(std::min(bytes.size(), 9 + n));
  }
  EXPECT_TRUE(bytes.empty());
  return out;
}

// A codec with all that it needs.
struct Server {
  support::FakeWire wire;
  support::FakeSlabs slabs;
  support::FakeIntake intake;
  wire::Limits limits;
  wire::PeerInfo peer{"127.0.0.1:1", wire::Security::kCleartext};
  std::optional<wire::CodecEnv> env;
  std::unique_ptr<wire::Codec> codec;
  size_t gathers = 0;

  explicit Server(wire::Limits l = {}) : limits(l) { restart(); }
  void restart() { restart({intake, slabs, limits}); }
  void restart(const wire::CodecEnv& other) {
    codec.reset();
    codec = wire::make_h2(env.emplace(other), wire, peer);
  }
  void feed(std::string_view bytes) { support::feed(*codec, bytes); }
  // The bytes that the socket would get: the whole of what is pending, in bites if `bite` is not 0.
  std::string take(size_t bite = 0) { return support::take_output(*codec, bite); }
  // One write: what one gather shows.
  std::string write_once() {
    std::array<iovec, 64> pieces;
    size_t n = codec->pending(pieces);
    std::string shown;
    for (size_t i = 0; i < n; ++i) shown.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
    codec->consumed(shown.size());
    return shown;
  }
  // The input that the codec has left for another turn of the loop.
  void next_turn() {
    if (std::exchange(wire.tick_wanted, false)) codec->tick(wire.env.now());
  }
  void advance(base::Duration by) {
    for (; by > base::Duration(0); by -= std::chrono::seconds(1)) {
      wire.env.advance(std::min<base::Duration>(by, std::chrono::seconds(1)));
      codec->tick(wire.env.now());
    }
  }
};

struct Answer {
  Headers head, trailers, informational;
  std::string body;
  bool ended = false, ended_head = false;
  std::optional<uint32_t> reset;  // RST_STREAM's code
  std::string status() const { return head.empty() ? "" : head[0].second; }
  std::string field(std::string_view name) const { return find(head, name); }
  std::string trailer(std::string_view name) const { return find(trailers, name); }
  static std::string find(const Headers& fields, std::string_view name) {
    for (const auto& [n, v] : fields)
      if (n == name) return v;
    return {};
  }
};

class Client {
 public:
  explicit Client(uint32_t window = 65535) {
    nghttp2_session_callbacks* cb = nullptr;
    nghttp2_session_callbacks_new(&cb);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    nghttp2_session_client_new2(&session, cb, this, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cb);
    nghttp2_settings_entry iv[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window}};
    nghttp2_submit_settings(session, 0, iv, 1);
  }
  ~Client() { nghttp2_session_del(session); }
  Client(const Client&) = delete;

  // Starts a request; with `open`, its body goes on with more().
  int32_t request(const Headers& fields, std::string body = {}, bool open = false) {
    std::vector<nghttp2_nv> nva;
    for (const auto& [n, v] : fields)
      nva.push_back({(uint8_t*)n.data(), (uint8_t*)v.data(), n.size(), v.size(), NGHTTP2_NV_FLAG_NONE});
    nghttp2_data_provider provider{};
    provider.read_callback = read;
    bool has_body = open || !body.empty();
    int32_t id =
        nghttp2_submit_request(session, nullptr, nva.data(), nva.size(), has_body ? &provider : nullptr, nullptr);
    uploads_[id] = {std::move(body), 0, open};
    return id;
  }
  void more(int32_t id, std::string_view bytes, bool last = false) {
    Upload& u = uploads_[id];
    u.bytes.append(bytes);
    u.open = !last;
    nghttp2_session_resume_data(session, id);
  }
  void reset(int32_t id) { nghttp2_submit_rst_stream(session, 0, id, NGHTTP2_CANCEL); }

  std::string output() {
    std::string out;
    const uint8_t* at;
    for (ssize_t n; (n = nghttp2_session_mem_send(session, &at)) > 0;) out.append((const char*)at, size_t(n));
    return out;
  }
  void input(std::string_view bytes) {
    ssize_t n = nghttp2_session_mem_recv(session, (const uint8_t*)bytes.data(), bytes.size());
    EXPECT_EQ(n, ssize_t(bytes.size())) << (n < 0 ? nghttp2_strerror(int(n)) : "");
  }
  // Carries bytes both ways until nobody has any, `piece` at a time towards the server.
  void talk(Server& s, size_t piece = 0, size_t bite = 0) {
    for (;;) {
      std::string up = output();
      size_t step = piece ? piece : up.size();
      for (size_t at = 0; at < up.size(); at += step) s.feed(std::string_view(up).substr(at, step));
      std::string down = s.take(bite);
      const bool more = !s.codec->wants_read() && std::exchange(s.wire.tick_wanted, false);
      if (up.empty() && down.empty() && !more) return;
      input(down);
      if (more) s.codec->tick(s.wire.env.now());
    }
  }
  Answer& operator[](int32_t id) { return answers[id]; }

  nghttp2_session* session = nullptr;
  std::map<int32_t, Answer> answers;
  std::vector<std::pair<int32_t, uint32_t>> goaways;  // last stream, code

 private:
  struct Upload {
    std::string bytes;
    size_t sent = 0;
    bool open = false;
  };
  static Client& self(void* user) { return *static_cast<Client*>(user); }
  static ssize_t read(nghttp2_session*, int32_t id, uint8_t* buf, size_t n, uint32_t* flags, nghttp2_data_source*,
                      void* user) {
    Upload& u = self(user).uploads_[id];
    size_t part = std::min(n, u.bytes.size() - u.sent);
    std::memcpy(buf, u.bytes.data() + u.sent, part);
    u.sent += part;
    if (u.sent == u.bytes.size() && !u.open) *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (part == 0 && u.open) return NGHTTP2_ERR_DEFERRED;
    return ssize_t(part);
  }
  static int on_header(nghttp2_session*, const nghttp2_frame* f, const uint8_t* n, size_t nl, const uint8_t* v,
                       size_t vl, uint8_t, void* user) {
    Answer& a = self(user)[f->hd.stream_id];
    std::pair<std::string, std::string> field({(const char*)n, nl}, {(const char*)v, vl});
    if (field.first == ":status" && field.second[0] == '1')
      a.informational.push_back(field);
    else
      (a.ended_head ? a.trailers : a.head).push_back(field);
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* f, void* user) {
    Answer& a = self(user)[f->hd.stream_id];
    if (f->hd.type == NGHTTP2_HEADERS && !a.head.empty()) a.ended_head = true;
    if ((f->hd.type == NGHTTP2_HEADERS || f->hd.type == NGHTTP2_DATA) && (f->hd.flags & 1)) a.ended = true;
    if (f->hd.type == NGHTTP2_RST_STREAM) a.reset = f->rst_stream.error_code;
    if (f->hd.type == NGHTTP2_GOAWAY) self(user).goaways.emplace_back(f->goaway.last_stream_id, f->goaway.error_code);
    return 0;
  }
  static int on_data(nghttp2_session*, uint8_t, int32_t id, const uint8_t* at, size_t n, void* user) {
    self(user)[id].body.append((const char*)at, n);
    return 0;
  }
  std::map<int32_t, Upload> uploads_;
};

}  // namespace weir::test
