// Measures what the HTTP/2 codec costs per request beside libnghttp2 alone: one recorded client, replayed to both in
// memory.
//
//   h2_bench [requests per turn] [body bytes]
//
// A gRPC-like exchange: a POST with the fields of grpc++ and a body; the answer is a head, the same body, and trailers.
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "wire/codec.h"

namespace {

using namespace weir;
using Clock = std::chrono::steady_clock;

// CPU time of this thread: other programs do not count.
double cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

constexpr int kTurns = 2000;

nghttp2_nv nv(std::string_view name, std::string_view value) {
  return {(uint8_t*)name.data(), (uint8_t*)value.data(), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

// Slabs of one size, used again: as the server's pool does it.
class Pool final : public base::SlabSource {
 public:
  base::Slab* take(size_t bytes) override {
    if (bytes > kSize) return base::heap_slab(bytes);
    if (free_.empty()) return new base::Slab(static_cast<std::byte*>(std::aligned_alloc(64, kSize)), kSize, release);
    base::Slab* slab = free_.back();
    free_.pop_back();
    slab->refs.store(1);
    return slab;
  }

 private:
  static constexpr size_t kSize = 2048;
  static void release(base::Slab* slab) { free_.push_back(slab); }
  static inline std::vector<base::Slab*> free_;
};

// The codec with a service that answers with what it got.
class Codec final : public wire::Wire, public wire::Intake {
 public:
  void output_ready() override {}
  base::Time now() const override { return base::Time(Clock::now().time_since_epoch()); }
  wire::Plan begin(wire::Exchange&) override { return {}; }
  void whole(wire::Exchange& x) override {
    wire::Response head;
    head.fields.add("content-type", "application/grpc");
    x.head(std::move(head));
    x.body(x.content());
    wire::Fields trailers;
    trailers.add("grpc-status", "0");
    x.end(std::move(trailers));
  }
  void closed(wire::Exchange&) override {}
  void rejected(std::string_view why, const wire::PeerInfo&) override {
    std::printf("rejected: %.*s\n", int(why.size()), why.data());
    std::abort();
  }

  std::string turn(std::string_view in, bool keep) {
    codec_->feed(std::as_bytes(std::span(in)));
    std::string out;
    std::array<iovec, 64> pieces;
    while (size_t n = codec_->pending(pieces)) {
      size_t total = 0;
      for (size_t i = 0; i < n; ++i) {
        if (keep) out.append(static_cast<char*>(pieces[i].iov_base), pieces[i].iov_len);
        total += pieces[i].iov_len;
      }
      codec_->consumed(total);
    }
    return out;
  }

 private:
  wire::Limits limits_;
  Pool pool_;
  wire::PeerInfo peer_;
  wire::CodecEnv env_{*this, pool_, limits_};
  std::unique_ptr<wire::Codec> codec_ = wire::make_h2(env_, *this, peer_);
};

// The least that a server on the library can do.
class Bare {
 public:
  Bare() {
    nghttp2_session_callbacks* cb = nullptr;
    nghttp2_session_callbacks_new(&cb);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, [](auto* s, auto* f, void*) {
      nghttp2_session_set_stream_user_data(s, f->hd.stream_id, new Stream);
      return 0;
    });
    nghttp2_session_callbacks_set_on_header_callback(
        cb, [](auto*, auto*, auto*, size_t, auto*, size_t, uint8_t, void*) { return 0; });
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        cb, [](auto* s, uint8_t, int32_t id, const uint8_t* at, size_t n, void*) {
          static_cast<Stream*>(nghttp2_session_get_stream_user_data(s, id))->body.append((const char*)at, n);
          return 0;
        });
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, [](auto* s, auto* f, void*) {
      if (!(f->hd.flags & NGHTTP2_FLAG_END_STREAM) || f->hd.type > 1) return 0;
      std::array head{nv(":status", "200"), nv("content-type", "application/grpc")};
      nghttp2_data_provider body{};
      body.source.ptr = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);
      body.read_callback = [](auto* s, int32_t id, uint8_t* to, size_t n, uint32_t* flags, auto* source,
                              void*) -> ssize_t {
        auto& x = *static_cast<Stream*>(source->ptr);
        n = std::min(n, x.body.size() - x.sent);
        std::copy_n(x.body.data() + x.sent, n, (char*)to);
        x.sent += n;
        if (x.sent == x.body.size()) {
          *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
          std::array trailers{nv("grpc-status", "0")};
          nghttp2_submit_trailer(s, id, trailers.data(), trailers.size());
        }
        return ssize_t(n);
      };
      nghttp2_submit_response(s, f->hd.stream_id, head.data(), head.size(), &body);
      return 0;
    });
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, [](auto* s, int32_t id, uint32_t, void*) {
      delete static_cast<Stream*>(nghttp2_session_get_stream_user_data(s, id));
      return 0;
    });
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_session_server_new2(&session_, cb, this, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cb);
    std::array<nghttp2_settings_entry, 2> iv{
        {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 100}, {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20}}};
    nghttp2_submit_settings(session_, 0, iv.data(), iv.size());
    nghttp2_session_set_local_window_size(session_, 0, 0, 16 << 20);
  }
  ~Bare() { nghttp2_session_del(session_); }

  std::string turn(std::string_view in, bool) {
    nghttp2_session_mem_recv(session_, (const uint8_t*)in.data(), in.size());
    out_.clear();
    const uint8_t* at;
    for (ssize_t n; (n = nghttp2_session_mem_send(session_, &at)) > 0;) out_.append((const char*)at, size_t(n));
    return {};
  }

 private:
  struct Stream {
    std::string body;
    size_t sent = 0;
  };
  nghttp2_session* session_ = nullptr;
  std::string out_;
};

// The client's bytes, turn by turn, when the codec answers it.
std::vector<std::string> record(int per_turn, size_t bytes) {
  nghttp2_session_callbacks* cb = nullptr;
  nghttp2_session_callbacks_new(&cb);
  nghttp2_session* session = nullptr;
  nghttp2_session_client_new(&session, cb, nullptr);
  nghttp2_session_callbacks_del(cb);
  nghttp2_settings_entry window{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20};
  nghttp2_submit_settings(session, 0, &window, 1);
  nghttp2_session_set_local_window_size(session, 0, 0, 16 << 20);
  std::string body(bytes, 'x');
  std::array head{nv(":method", "POST"),
                  nv(":scheme", "http"),
                  nv(":path", "/inference.GRPCInferenceService/ModelInfer"),
                  nv(":authority", "127.0.0.1:8080"),
                  nv("te", "trailers"),
                  nv("content-type", "application/grpc"),
                  nv("user-agent", "grpc-c++/1.51.1"),
                  nv("grpc-accept-encoding", "identity, deflate, gzip")};
  std::vector<size_t> left(size_t(per_turn) * (kTurns + 2) * 2 + 3, bytes);
  Codec codec;
  std::vector<std::string> turns;
  for (int t = 0; t < kTurns; ++t) {
    for (int i = 0; t > 0 && i < per_turn; ++i) {
      nghttp2_data_provider data{};
      data.source.ptr = left.data();
      data.read_callback = [](auto*, int32_t id, uint8_t* to, size_t n, uint32_t* flags, auto* source,
                              void*) -> ssize_t {
        size_t& left = static_cast<size_t*>(source->ptr)[id];
        n = std::min(n, left);
        std::fill_n(to, n, 'x');
        left -= n;
        if (left == 0) *flags |= NGHTTP2_DATA_FLAG_EOF;
        return ssize_t(n);
      };
      nghttp2_submit_request(session, nullptr, head.data(), head.size(), &data, nullptr);
    }
    std::string out;
    const uint8_t* at;
    for (ssize_t n; (n = nghttp2_session_mem_send(session, &at)) > 0;) out.append((const char*)at, size_t(n));
    std::string answer = codec.turn(out, true);
    nghttp2_session_mem_recv(session, (const uint8_t*)answer.data(), answer.size());
    turns.push_back(std::move(out));
  }
  nghttp2_session_del(session);
  return turns;
}

template <class Server>
double best_ns(const std::vector<std::string>& turns, int per_turn) {
  double best = 1e12;
  for (int round = 0; round < 15; ++round) {
    Server server;
    double began = cpu_ns();
    for (const std::string& t : turns) server.turn(t, false);
    best = std::min(best, cpu_ns() - began);
  }
  return best / (double(turns.size()) * per_turn);
}

}  // namespace

int main(int argc, char** argv) {
  int per_turn = argc > 1 ? std::atoi(argv[1]) : 32;
  size_t bytes = argc > 2 ? size_t(std::atoll(argv[2])) : 120;
  auto turns = record(per_turn, bytes);
  double bare = best_ns<Bare>(turns, per_turn), ours = best_ns<Codec>(turns, per_turn);
  std::printf("%d per turn, %zu byte bodies: libnghttp2 alone %.0f ns, codec %.0f ns, difference %.0f ns per request\n",
              per_turn, bytes, bare, ours, ours - bare);
}
