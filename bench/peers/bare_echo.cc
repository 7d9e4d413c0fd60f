// The ceiling: asio and nghttp2 and nothing else. Echoes each request body as a gRPC response without looking at it;
// one io_context, one read and one write per burst. What weir does on top of this is decoding, routing, scheduling,
// encoding.
//
// usage: bare_echo PORT
#include <nghttp2/nghttp2.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <cstdlib>
#include <memory>
#include <string>

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

struct Stream {
  std::string body;
  size_t sent = 0;
};

nghttp2_nv field(const char* name, const char* value) {
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name)), reinterpret_cast<uint8_t*>(const_cast<char*>(value)),
          std::char_traits<char>::length(name), std::char_traits<char>::length(value),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(tcp::socket socket) : socket_(std::move(socket)) { open(); }
  ~Connection() { nghttp2_session_del(session_); }
  void read() {
    socket_.async_read_some(asio::buffer(in_), [self = shared_from_this()](auto error, size_t n) {
      if (error || nghttp2_session_mem_recv(self->session_, self->in_.data(), n) < 0) return;
      self->write();
    });
  }

 private:
  void open();
  void write() {
    const uint8_t* data;
    out_.clear();
    for (ssize_t n; (n = nghttp2_session_mem_send(session_, &data)) > 0;)
      out_.append(reinterpret_cast<const char*>(data), size_t(n));
    if (out_.empty()) return read();
    asio::async_write(socket_, asio::buffer(out_), [self = shared_from_this()](auto error, size_t) {
      if (!error) self->read();
    });
  }

  tcp::socket socket_;
  nghttp2_session* session_ = nullptr;
  std::array<uint8_t, 256 << 10> in_;
  std::string out_;
};

int on_begin(nghttp2_session* session, const nghttp2_frame* frame, void*) {
  nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, new Stream);
  return 0;
}

int on_data(nghttp2_session* session, uint8_t, int32_t id, const uint8_t* data, size_t n, void*) {
  static_cast<Stream*>(nghttp2_session_get_stream_user_data(session, id))
      ->body.append(reinterpret_cast<const char*>(data), n);
  return 0;
}

ssize_t read_body(nghttp2_session* session, int32_t id, uint8_t* out, size_t room, uint32_t* flags,
                  nghttp2_data_source* source, void*) {
  auto* stream = static_cast<Stream*>(source->ptr);
  size_t n = stream->body.copy(reinterpret_cast<char*>(out), room, stream->sent);
  stream->sent += n;
  if (stream->sent == stream->body.size()) {
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    auto status = field("grpc-status", "0");
    nghttp2_submit_trailer(session, id, &status, 1);
  }
  return ssize_t(n);
}

int on_frame(nghttp2_session* session, const nghttp2_frame* frame, void*) {
  if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
  auto* stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
  if (!stream) return 0;
  std::array head{field(":status", "200"), field("content-type", "application/grpc")};
  nghttp2_data_provider body{{.ptr = stream}, read_body};
  nghttp2_submit_response(session, frame->hd.stream_id, head.data(), head.size(), &body);
  return 0;
}

int on_close(nghttp2_session* session, int32_t id, uint32_t, void*) {
  delete static_cast<Stream*>(nghttp2_session_get_stream_user_data(session, id));
  return 0;
}

void Connection::open() {
  nghttp2_session_callbacks* callbacks;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
  nghttp2_session_server_new(&session_, callbacks, this);
  nghttp2_session_callbacks_del(callbacks);
  std::array settings{nghttp2_settings_entry{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 100},
                      nghttp2_settings_entry{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, 16 << 20);
}

void accept(tcp::acceptor& acceptor) {
  acceptor.async_accept([&acceptor](auto error, tcp::socket socket) {
    if (!error) {
      socket.set_option(tcp::no_delay(true));
      std::make_shared<Connection>(std::move(socket))->read();
    }
    accept(acceptor);
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  asio::io_context loop(1);
  tcp::acceptor acceptor(loop, {asio::ip::address_v4::loopback(), uint16_t(std::atoi(argv[1]))});
  accept(acceptor);
  loop.run();
}
