#include "library_h2_server.h"

#include <algorithm>
#include <array>
#include <utility>

namespace weir::test {
namespace {

std::string_view text_at(const uint8_t* at, size_t n) { return {reinterpret_cast<const char*>(at), n}; }
nghttp2_nv pair_of(std::string_view name, std::string_view value) {
  return {(uint8_t*)name.data(), (uint8_t*)value.data(), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

struct LibraryH2Server::Callbacks {
  static LibraryH2Server& of(void* user) { return *static_cast<LibraryH2Server*>(user); }

  static int begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    LibraryH2Server& it = of(user);
    it.trailers_ = frame->headers.cat != NGHTTP2_HCAT_REQUEST;
    it.rules_.begin(it.trailers_ ? wire::H2HeadRules::Block::kTrailers : wire::H2HeadRules::Block::kRequest);
    if (!it.trailers_) it.requests[frame->hd.stream_id] = {};
    return 0;
  }
  static int header(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t n, const uint8_t* value,
                    size_t m, uint8_t, void* user) {
    LibraryH2Server& it = of(user);
    Request& request = it.requests[frame->hd.stream_id];
    if (!it.rules_.field(text_at(name, n), text_at(value, m)) || it.trailers_) return 0;
    if (text_at(name, n) == ":path") request.path = text_at(value, m);
    if (text_at(name, n) == "content-length") request.length = wire::parse_length(text_at(value, m));
    return 0;
  }
  static int frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    LibraryH2Server& it = of(user);
    const int32_t stream = frame->hd.stream_id;
    const bool ends = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    Request* request = it.find(stream);
    if (frame->hd.type == NGHTTP2_DATA && ends && request) it.end(stream, *request);
    if (frame->hd.type != NGHTTP2_HEADERS || !request) return 0;
    if (!it.rules_.well_formed() || (it.trailers_ && !ends)) return it.malformed(stream), 0;
    if (ends && request->length >= 0 && request->length != int64_t(request->body.size()))
      return it.malformed(stream), 0;
    if (!it.trailers_) request->begun = true;
    if (ends) it.end(stream, *request);
    return 0;
  }
  static int data(nghttp2_session* session, uint8_t, int32_t stream, const uint8_t* at, size_t n, void* user) {
    LibraryH2Server& it = of(user);
    nghttp2_session_consume(session, stream, n);
    Request* request = it.find(stream);
    if (!request) return 0;
    request->body += text_at(at, n);
    if (request->length >= 0 && int64_t(request->body.size()) > request->length) it.malformed(stream);
    return 0;
  }
  static int stream_close(nghttp2_session*, int32_t stream, uint32_t, void* user) {
    of(user).requests[stream].closed = true;
    return 0;
  }
  static int frame_sent(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    const nghttp2_frame_hd& hd = frame->hd;
    LibraryH2Server& it = of(user);
    it.guard_.sent({uint32_t(hd.length), wire::H2Frame(hd.type), hd.flags, hd.stream_id, false});
    Request* request = it.find(hd.stream_id);
    const bool ends = (hd.type == NGHTTP2_HEADERS || hd.type == NGHTTP2_DATA) && (hd.flags & NGHTTP2_FLAG_END_STREAM);
    if (request && ends) request->finished = true;
    return 0;
  }
  static ssize_t read(nghttp2_session* session, int32_t stream, uint8_t* to, size_t most, uint32_t* flags,
                      nghttp2_data_source* source, void* user) {
    Request& request = *static_cast<Request*>(source->ptr);
    const size_t n = std::min(most, request.answer.size() - request.sent);
    request.answer.copy(reinterpret_cast<char*>(to), n, request.sent);
    request.sent += n;
    if (request.sent < request.answer.size()) return ssize_t(n);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (!request.trailers) return ssize_t(n);
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    const nghttp2_nv trailer = pair_of("grpc-status", "0");
    nghttp2_submit_trailer(session, stream, &trailer, 1);
    (void)user;
    return ssize_t(n);
  }

  static nghttp2_session* open(LibraryH2Server& it) {
    nghttp2_session_callbacks* to = nullptr;
    nghttp2_option* options = nullptr;
    nghttp2_session_callbacks_new(&to);
    nghttp2_option_new(&options);
    nghttp2_session_callbacks_set_on_begin_headers_callback(to, begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(to, header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(to, frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(to, data);
    nghttp2_session_callbacks_set_on_stream_close_callback(to, stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(to, frame_sent);
    nghttp2_option_set_no_auto_window_update(options, 1);
    nghttp2_option_set_no_closed_streams(options, 1);
    nghttp2_option_set_no_http_messaging(options, 1);  // H2HeadRules in its place
    nghttp2_session* session = nullptr;
    nghttp2_session_server_new2(&session, to, &it, options);
    nghttp2_option_del(options);
    nghttp2_session_callbacks_del(to);
    return session;
  }
};

LibraryH2Server::LibraryH2Server(const wire::Limits& limits, base::Time now)
    : limits_(limits), now_(now), guard_(limits_, now), session_(Callbacks::open(*this)) {
  const std::array<nghttp2_settings_entry, 6> settings{{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.stream_window},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, limits.max_frame},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits.header_bytes},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
      {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
  }};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, int32_t(limits.conn_window));
}

LibraryH2Server::~LibraryH2Server() { nghttp2_session_del(session_); }

bool LibraryH2Server::over() const {
  return dead_ || (!nghttp2_session_want_read(session_) && !nghttp2_session_want_write(session_));
}

// A stream whose Exchange is there: not one that has ended.
LibraryH2Server::Request* LibraryH2Server::find(int32_t stream) {
  auto at = requests.find(stream);
  return at == requests.end() || at->second.closed || at->second.refused ? nullptr : &at->second;
}

bool LibraryH2Server::admit(std::string_view bytes) {
  const auto* at = reinterpret_cast<const std::byte*>(bytes.data());
  guard_.new_read();
  bool found = false;
  for (size_t used = 0; used < bytes.size();) {
    used += walker_.walk(at + used, bytes.size() - used, found);
    if (!found) continue;
    if (!guard_.frame(walker_.head(), now_)) return false;
    guard_.condemn(frame_rules_.check(walker_.head()));
    if (guard_.verdict()) return false;
  }
  return true;
}

void LibraryH2Server::feed(std::string_view bytes) {
  if (over()) return;
  const bool good = admit(bytes);
  if (good) {
    const auto n = nghttp2_session_mem_recv(session_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    if (n < 0) guard_.condemn({wire::reason::kParse, wire::H2Error(n == NGHTTP2_ERR_BAD_CLIENT_MAGIC ? 1 : 11), ""});
  }
  dead_ = bool(guard_.verdict());
}

std::string LibraryH2Server::output() {
  std::string out;
  const uint8_t* at = nullptr;
  for (ssize_t n; !dead_ && (n = nghttp2_session_mem_send(session_, &at)) > 0;) out += text_at(at, size_t(n));
  if (!dead_ || std::exchange(said_, true)) return out;
  auto u32 = [](uint32_t v) { return std::string{char(v >> 24), char(v >> 16), char(v >> 8), char(v)}; };
  return out + std::string("\0\0\x8\7\0\0\0\0\0", 9) +
         u32(uint32_t(nghttp2_session_get_last_proc_stream_id(session_))) + u32(uint32_t(guard_.verdict().code));
}

void LibraryH2Server::malformed(int32_t stream) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, NGHTTP2_PROTOCOL_ERROR);
  requests[stream].refused = true;
}

void LibraryH2Server::end(int32_t stream, Request& request) {
  if (request.length >= 0 && request.length != int64_t(request.body.size())) return malformed(stream);
  request.ended = true;
}

void LibraryH2Server::answer(int32_t stream, std::string body, bool trailers) {
  Request& request = requests.at(stream);
  request.answer = std::move(body);
  request.trailers = trailers;
  request.answered = true;
  const nghttp2_nv head = pair_of(":status", "200");
  nghttp2_data_provider from;
  from.source.ptr = &request;
  from.read_callback = Callbacks::read;
  const bool bare = request.answer.empty() && !trailers;
  nghttp2_submit_response(session_, stream, &head, 1, bare ? nullptr : &from);
}

void LibraryH2Server::reset(int32_t stream, uint32_t code) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, code);
}

void LibraryH2Server::drain(bool refuse) {
  if (!refuse) return void(nghttp2_submit_shutdown_notice(session_));
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session_),
                        NGHTTP2_NO_ERROR, nullptr, 0);
}

}  // namespace weir::test
