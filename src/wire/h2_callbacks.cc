#include "wire/h2_callbacks.h"

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <utility>

#include "base/log.h"
#include "wire/h2_bodies.h"
#include "wire/h2_connection.h"
#include "wire/h2_receiver.h"
#include "wire/h2_sender.h"

namespace weir::wire {
namespace {

std::string_view view_of(const uint8_t* at, size_t n) { return {reinterpret_cast<const char*>(at), n}; }
H2Exchange& exchange_of(nghttp2_data_source* source) { return *static_cast<H2Exchange*>(source->ptr); }
H2Parts& parts_of(void* user) { return *static_cast<H2Parts*>(user); }

// Nothing may be thrown through the library. A lack of memory ends the connection, as what the library itself lacks
// memory for does.
template <class Work>
auto catching(void* user, Work work) -> decltype(work(std::declval<H2Parts&>())) {
  try {
    return work(parts_of(user));
  } catch (const std::bad_alloc&) {
    parts_of(user).connection.condemn(reason::kOverload, H2Error::kInternal, "out of memory");
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  } catch (const std::exception& e) {
    base::log::error("a connection ends by an exception", {{"what", e.what()}});
    parts_of(user).connection.condemn(reason::kOverload, H2Error::kInternal, "cannot go on");
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
}

int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  return catching(user, [&](H2Parts& h2) { return h2.receiver.on_begin_headers(*frame); });
}
int on_header(nghttp2_session*, const nghttp2_frame*, const uint8_t* name, size_t name_size, const uint8_t* value,
              size_t value_size, uint8_t, void* user) {
  return catching(
      user, [&](H2Parts& h2) { return h2.receiver.on_header(view_of(name, name_size), view_of(value, value_size)); });
}
int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  return catching(user, [&](H2Parts& h2) { return h2.receiver.on_frame(*frame); });
}
int on_data(nghttp2_session*, uint8_t, int32_t stream, const uint8_t* at, size_t n, void* user) {
  return catching(user, [&](H2Parts& h2) { return h2.bodies.on_data(stream, std::as_bytes(std::span(at, n))); });
}
int on_stream_close(nghttp2_session*, int32_t stream, uint32_t, void* user) {
  return catching(user, [&](H2Parts& h2) { return h2.receiver.on_stream_close(stream); });
}
int on_invalid_frame(nghttp2_session*, const nghttp2_frame*, int lib_error, void* user) {
  return catching(user, [&](H2Parts& h2) { return h2.receiver.on_invalid_frame(lib_error); });
}
int on_frame_sent(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  return catching(user, [&](H2Parts& h2) { return h2.sender.on_frame_sent(*frame); });
}
int on_frame_not_sent(nghttp2_session*, const nghttp2_frame* frame, int, void* user) {
  return catching(user, [&](H2Parts& h2) { return h2.sender.on_frame_not_sent(*frame); });
}
int send_data(nghttp2_session*, nghttp2_frame*, const uint8_t* head, size_t n, nghttp2_data_source* source,
              void* user) {
  return catching(user, [&](H2Parts& h2) { return h2.sender.send_body(exchange_of(source), head, n); });
}
ssize_t frame_size(nghttp2_session*, uint8_t, int32_t stream, int32_t, int32_t, uint32_t max, void* user) {
  return parts_of(user).sender.frame_size(stream, max);
}
ssize_t read_body(nghttp2_session*, int32_t, uint8_t*, size_t max, uint32_t* flags, nghttp2_data_source* source,
                  void* user) {
  return parts_of(user).sender.read_body(exchange_of(source), max, *flags);
}

void set_callbacks(nghttp2_session_callbacks* to) {
  nghttp2_session_callbacks_set_on_begin_headers_callback(to, on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(to, on_header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(to, on_frame);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(to, on_data);
  nghttp2_session_callbacks_set_on_stream_close_callback(to, on_stream_close);
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(to, on_invalid_frame);
  nghttp2_session_callbacks_set_on_frame_send_callback(to, on_frame_sent);
  nghttp2_session_callbacks_set_on_frame_not_send_callback(to, on_frame_not_sent);
  nghttp2_session_callbacks_set_send_data_callback(to, send_data);
  nghttp2_session_callbacks_set_data_source_read_length_callback(to, frame_size);
}

// The library ends a connection after 1,000 resets by its peer at more than 33 a second, whatever was reset. The Guard
// counts the same, and fewer, but for resets that cost us nothing. A million a second are more than fit on a wire.
void lift_reset_limit([[maybe_unused]] nghttp2_option* options) {
#ifdef WEIR_NGHTTP2_LIMITS_RESETS
  constexpr uint64_t kMany = 1'000'000;
  nghttp2_option_set_stream_reset_rate_limit(options, kMany, kMany);
#endif
}

// Clamps to what the RFC allows, whatever was configured: a SETTINGS frame that the library refuses would never be
// sent.
void submit_settings(nghttp2_session* session, const Limits& limits) {
  uint32_t window = std::clamp(limits.stream_window, 1u, uint32_t(NGHTTP2_MAX_WINDOW_SIZE));
  uint32_t max_frame = std::clamp(limits.max_frame, 1u << 14, (1u << 24) - 1);
  const std::array<nghttp2_settings_entry, 6> settings{{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, max_frame},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits.header_bytes},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
      {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
  }};
  nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
}

}  // namespace

nghttp2_session* open_h2_session(H2Parts& parts, nghttp2_mem* memory) {
  nghttp2_session* session = nullptr;
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* options = nullptr;
  if (nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&options) != 0) throw std::bad_alloc();
  set_callbacks(callbacks);
  nghttp2_option_set_no_auto_window_update(options, 1);
  nghttp2_option_set_no_closed_streams(options, 1);
  nghttp2_option_set_max_outbound_ack(options, parts.connection.limits.max_outbound_control);
  nghttp2_option_set_no_http_messaging(options, 1);  // H2HeadRules in its place
  lift_reset_limit(options);
  int rv = nghttp2_session_server_new3(&session, callbacks, &parts, options, memory);
  nghttp2_option_del(options);
  nghttp2_session_callbacks_del(callbacks);
  if (rv != 0) throw std::bad_alloc();
  submit_settings(session, parts.connection.limits);
  return session;
}

nghttp2_data_provider body_provider(H2Exchange& x) {
  nghttp2_data_provider body;
  body.source.ptr = &x;
  body.read_callback = read_body;
  return body;
}

}  // namespace weir::wire
