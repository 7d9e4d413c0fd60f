// The library's session and its callbacks. Each callback finds its H2 and goes there.
#include "wire/h2_session.h"

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <utility>

#include "base/log.h"

namespace weir::wire {

// The library is C: nothing may be thrown through it. A lack of memory ends the connection, as what the library itself
// lacks memory for does.
struct H2Callbacks {
  template <class Work>
  static auto guarded(void* user, Work work) -> decltype(work(std::declval<H2&>())) {
    try {
      return work(self(user));
    } catch (const std::bad_alloc&) {
      self(user).condemn(reason::kOverload, H2Error::kInternal, "out of memory");
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    } catch (const std::exception& e) {
      base::log::error("a connection ends by an exception", {{"what", e.what()}});
      self(user).condemn(reason::kOverload, H2Error::kInternal, "cannot go on");
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
  }
  static H2& self(void* user) { return *static_cast<H2*>(user); }
  static std::string_view text(const uint8_t* at, size_t n) { return {reinterpret_cast<const char*>(at), n}; }
  static H2Exchange& exchange(nghttp2_data_source* source) { return *static_cast<H2Exchange*>(source->ptr); }

  static int begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    return guarded(user, [&](H2& h2) { return h2.on_begin_headers(*frame); });
  }
  static int header(nghttp2_session*, const nghttp2_frame*, const uint8_t* name, size_t name_size, const uint8_t* value,
                    size_t value_size, uint8_t, void* user) {
    return guarded(user, [&](H2& h2) { return h2.on_header(text(name, name_size), text(value, value_size)); });
  }
  static int frame_received(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    return guarded(user, [&](H2& h2) { return h2.on_frame(*frame); });
  }
  static int data(nghttp2_session*, uint8_t, int32_t stream, const uint8_t* at, size_t n, void* user) {
    return guarded(user, [&](H2& h2) { return h2.on_data(stream, std::as_bytes(std::span(at, n))); });
  }
  static int stream_close(nghttp2_session*, int32_t stream, uint32_t, void* user) {
    return guarded(user, [&](H2& h2) { return h2.on_stream_close(stream); });
  }
  static int invalid_frame(nghttp2_session*, const nghttp2_frame*, int lib_error, void* user) {
    return guarded(user, [&](H2& h2) { return h2.on_invalid_frame(lib_error); });
  }
  static int frame_sent(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    return guarded(user, [&](H2& h2) { return h2.on_frame_sent(*frame); });
  }
  static int frame_not_sent(nghttp2_session*, const nghttp2_frame* frame, int, void* user) {
    return guarded(user, [&](H2& h2) { return h2.on_frame_not_sent(*frame); });
  }
  static int send_data(nghttp2_session*, nghttp2_frame*, const uint8_t* head, size_t n, nghttp2_data_source* source,
                       void* user) {
    return guarded(user, [&](H2& h2) { return h2.send_body(exchange(source), head, n); });
  }
  static ssize_t frame_size(nghttp2_session*, uint8_t, int32_t stream, int32_t, int32_t, uint32_t max, void* user) {
    return self(user).frame_size(stream, max);
  }

  static void set(nghttp2_session_callbacks* to) {
    nghttp2_session_callbacks_set_on_begin_headers_callback(to, begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(to, header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(to, frame_received);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(to, data);
    nghttp2_session_callbacks_set_on_stream_close_callback(to, stream_close);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(to, invalid_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(to, frame_sent);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(to, frame_not_sent);
    nghttp2_session_callbacks_set_send_data_callback(to, send_data);
    nghttp2_session_callbacks_set_data_source_read_length_callback(to, frame_size);
  }
};

void H2::start() {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* options = nullptr;
  if (nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&options) != 0) throw std::bad_alloc();
  H2Callbacks::set(callbacks);
  nghttp2_option_set_no_auto_window_update(options, 1);
  nghttp2_option_set_no_closed_streams(options, 1);
  nghttp2_option_set_max_outbound_ack(options, limits_.max_outbound_control);
  int rv = nghttp2_session_server_new2(&session_, callbacks, this, options);
  nghttp2_option_del(options);
  nghttp2_session_callbacks_del(callbacks);
  if (rv != 0) throw std::bad_alloc();

  // What the RFC allows, whatever was configured: a SETTINGS frame that the library refuses would never be sent.
  uint32_t window = std::clamp(limits_.stream_window, 1u, uint32_t(NGHTTP2_MAX_WINDOW_SIZE));
  uint32_t max_frame = std::clamp(limits_.max_frame, 1u << 14, (1u << 24) - 1);
  const std::array<nghttp2_settings_entry, 6> settings{{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits_.streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, max_frame},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits_.header_bytes},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
      {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
  }};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  fit_window();
}

// What a connection may send ahead of us: less where memory is short, so that what comes is what is worked on.
void H2::fit_window() {
  constexpr auto kLeast = uint32_t(NGHTTP2_INITIAL_CONNECTION_WINDOW_SIZE), kMost = uint32_t(NGHTTP2_MAX_WINDOW_SIZE);
  uint32_t window = overloaded(base::Overload::kShrink) ? kLeast : std::clamp(limits_.conn_window, kLeast, kMost);
  if (window == std::exchange(window_, window)) return;
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, int32_t(window));
  if (inside_ == Inside::kNothing && nghttp2_session_want_write(session_)) wire_.output_ready();
}

H2Exchange* H2::exchange_of(int32_t stream) const {
  return static_cast<H2Exchange*>(nghttp2_session_get_stream_user_data(session_, stream));
}

}  // namespace weir::wire
