// HTTP/2 by asio and nghttp2 and nothing else, for bare_echo and bare_batches. One io_context, one read and one write
// per burst.
#pragma once

#include <nghttp2/nghttp2.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <memory>
#include <string>

namespace bare {

namespace asio = boost::asio;
using asio::ip::tcp;

class Connection;

// A request, whole once `on_request` has it; then the answer, which `body` is replaced with.
struct Stream {
  Connection& of;
  int32_t id;
  std::string body;
  size_t sent = 0;
};

// Answers a request with answer(), at once or later: whoever does it later calls flush() on its connection. It stays as
// long as its connection is open.
using OnRequest = std::function<void(Stream&)>;

inline nghttp2_nv field(const char* name, const char* value) {
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name)), reinterpret_cast<uint8_t*>(const_cast<char*>(value)),
          std::char_traits<char>::length(name), std::char_traits<char>::length(value),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, const OnRequest& on_request) : on_request(on_request), socket_(std::move(socket)) {
    open();
  }
  ~Connection() { nghttp2_session_del(session_); }
  void read() {
    socket_.async_read_some(asio::buffer(in_), [self = shared_from_this()](auto error, size_t n) {
      if (error || nghttp2_session_mem_recv(self->session_, self->in_.data(), n) < 0) return;
      self->flush();
      self->read();
    });
  }
  void flush() {
    if (writing_) return;
    const uint8_t* data;
    out_.clear();
    for (ssize_t n; (n = nghttp2_session_mem_send(session_, &data)) > 0;)
      out_.append(reinterpret_cast<const char*>(data), size_t(n));
    if (out_.empty()) return;
    writing_ = true;
    asio::async_write(socket_, asio::buffer(out_), [self = shared_from_this()](auto error, size_t) {
      self->writing_ = false;
      if (!error) self->flush();
    });
  }
  void answer(Stream& stream);

  const OnRequest& on_request;

 private:
  void open();

  bool writing_ = false;
  tcp::socket socket_;
  nghttp2_session* session_ = nullptr;
  std::array<uint8_t, 256 << 10> in_;
  std::string out_;
};

inline int on_begin(nghttp2_session* session, const nghttp2_frame* frame, void* connection) {
  const int32_t id = frame->hd.stream_id;
  nghttp2_session_set_stream_user_data(session, id, new Stream{*static_cast<Connection*>(connection), id, {}});
  return 0;
}

inline int on_data(nghttp2_session* session, uint8_t, int32_t id, const uint8_t* data, size_t n, void*) {
  static_cast<Stream*>(nghttp2_session_get_stream_user_data(session, id))
      ->body.append(reinterpret_cast<const char*>(data), n);
  return 0;
}

inline ssize_t read_body(nghttp2_session* session, int32_t id, uint8_t* out, size_t room, uint32_t* flags,
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

inline int on_frame(nghttp2_session* session, const nghttp2_frame* frame, void*) {
  if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
  if (auto* stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id)) {
    auto& whole = *static_cast<Stream*>(stream);
    whole.of.on_request(whole);
  }
  return 0;
}

inline void Connection::answer(Stream& stream) {
  std::array head{field(":status", "200"), field("content-type", "application/grpc")};
  nghttp2_data_provider body{{.ptr = &stream}, read_body};
  nghttp2_submit_response(session_, stream.id, head.data(), head.size(), &body);
}

inline int on_close(nghttp2_session* session, int32_t id, uint32_t, void*) {
  delete static_cast<Stream*>(nghttp2_session_get_stream_user_data(session, id));
  return 0;
}

inline void Connection::open() {
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

inline void accept(tcp::acceptor& acceptor, const OnRequest& on_request) {
  acceptor.async_accept([&](auto error, tcp::socket socket) {
    if (!error) {
      socket.set_option(tcp::no_delay(true));
      std::make_shared<Connection>(std::move(socket), on_request)->read();
    }
    accept(acceptor, on_request);
  });
}

}  // namespace bare
