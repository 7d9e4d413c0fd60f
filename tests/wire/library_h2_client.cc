#include "library_h2_client.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "wire/h2_frame_walker.h"
#include "wire/h2_output.h"
#include "wire/text.h"

namespace weir::test {
namespace {

using wire::ClientAnswer, wire::ClientCodec, wire::ClientRequest, wire::Fields, wire::FrameWalker, wire::H2Output;
using wire::trim;

constexpr size_t kFilledAhead = 256 << 10;     // output gathered ahead of the socket
constexpr size_t kCopyAtMost = 4096;           // smaller pieces are cheaper to copy than to point at
constexpr uint32_t kLargestPiece = 256 << 10;  // and the largest frame that we take
// A stream whose bytes wait for consume() holds no more than its window. The connection's window is for what has not
// been looked at: it opens with every byte that comes, so that no stream holds up another one. A stream gets the larger
// window once half of the first has come without anything that waits.
constexpr uint32_t kFirstWindow = 1 << 20;
constexpr int32_t kStreamWindow = 4 << 20, kConnectionWindow = 64 << 20;
constexpr uint32_t kStreamsAtFirst = 100;  // until the server has said how many
constexpr uint32_t kMostStreams = 1 << 16;
constexpr size_t kMostAcks = 200;  // answers of ours that a server may make us queue

base::Status lost(std::string text) { return base::failure(base::Code::kUnavailable, std::move(text)); }

base::Status reset_status(uint32_t code) {
  if (code == NGHTTP2_REFUSED_STREAM) return lost("the server has refused the request unseen");
  const std::string text = std::string("the server has reset the request: ") + nghttp2_http2_strerror(code);
  if (code == NGHTTP2_CANCEL) return base::failure(base::Code::kCancelled, text);
  if (code == NGHTTP2_ENHANCE_YOUR_CALM) return base::failure(base::Code::kResourceExhausted, text);
  return lost(text);
}

// One request and its answer.
struct ClientStream {
  ClientAnswer* answer = nullptr;   // null: cancelled
  std::vector<base::Bytes> pieces;  // of the request's body that have not been sent whole, the last one in front
  size_t sent = 0;                  // of the last one
  size_t left = 0;                  // bytes of the body
  Fields fields;                    // of the head, then of the trailers
  size_t field_bytes = 0;           // of all of them
  size_t held = 0;                  // bytes of the body that wait for consume()
  size_t passed = 0;                // bytes that came before any waited; SIZE_MAX: its window has its last size
  int status = 0;                   // of the final head; below 200: it has not come
  bool told = false;                // on_head() has been called
  bool whole = false;               // its end has come
};

class LibraryClient final : public ClientCodec {
 public:
  LibraryClient();
  ~LibraryClient() override { nghttp2_session_del(session_); }
  LibraryClient(const LibraryClient&) = delete;

  bool has_room() const override;
  void send(const ClientRequest& request, ClientAnswer& answer) override;
  void cancel(ClientAnswer& answer) override;
  void consume(ClientAnswer& answer, size_t n) override;
  void feed(std::span<const std::byte> bytes) override;
  std::span<std::byte> receive_buffer() override;
  bool wants_read() const override { return true; }  // windows hold the server back
  void closed(const base::Status& why) override { fail_all(why); }
  size_t pending(std::span<iovec> out) override;
  void consumed(size_t n) override { output_.consumed(n); }
  bool finished() const override { return finished_; }
  bool idle() const override { return streams_.empty(); }

  // Called by the library.
  int on_field(int32_t id, std::string_view name, std::string_view value);
  int on_frame(const nghttp2_frame& frame);
  int on_data(int32_t id, std::span<const std::byte> piece);
  int on_close(int32_t id, uint32_t code);
  int send_piece(ClientStream& stream, const uint8_t* head, size_t n);

 private:
  using Streams = std::unordered_map<int32_t, ClientStream>;  // whose elements stay where they are
  ClientStream* stream_of(int32_t id);
  Streams::iterator find(const ClientAnswer& answer);
  void on_fields(ClientStream& stream);
  void widen(int32_t id, ClientStream& stream, size_t came, size_t held);
  void fill();
  void fail_all(const base::Status& why);

  nghttp2_session* session_ = nullptr;
  H2Output output_;
  FrameWalker walker_{0};  // of what the server sends
  Streams streams_;
  std::vector<nghttp2_nv> nva_;
  bool finished_ = false;
  bool dead_ = false;  // the library still knows of streams that are gone: it is not called any more
};

// --- the library's callbacks -----------------------------------------------------------------------------------------

std::string_view chars(const uint8_t* at, size_t n) { return {reinterpret_cast<const char*>(at), n}; }

// Nothing may be thrown through the library, which is C.
template <class Work>
int no_throw(void* user, Work work) {
  try {
    return work(*static_cast<LibraryClient*>(user));
  } catch (const std::exception&) {
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
}

int client_field(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
                 const uint8_t* value, size_t value_size, uint8_t, void* user) {
  return no_throw(user, [&](LibraryClient& client) {
    return client.on_field(frame->hd.stream_id, chars(name, name_size), chars(value, value_size));
  });
}
int client_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  return no_throw(user, [&](LibraryClient& client) { return client.on_frame(*frame); });
}
int client_data(nghttp2_session*, uint8_t, int32_t id, const uint8_t* at, size_t n, void* user) {
  return no_throw(user, [&](LibraryClient& client) { return client.on_data(id, std::as_bytes(std::span(at, n))); });
}
int client_close(nghttp2_session*, int32_t id, uint32_t code, void* user) {
  return no_throw(user, [&](LibraryClient& client) { return client.on_close(id, code); });
}
int client_send(nghttp2_session*, nghttp2_frame*, const uint8_t* head, size_t n, nghttp2_data_source* source,
                void* user) {
  return no_throw(user, [&](LibraryClient& client) {
    return client.send_piece(*static_cast<ClientStream*>(source->ptr), head, n);
  });
}
ssize_t client_piece(nghttp2_session*, int32_t, uint8_t*, size_t max, uint32_t* flags, nghttp2_data_source* source,
                     void*) {
  const auto& stream = *static_cast<ClientStream*>(source->ptr);
  const size_t n = std::min(stream.left, max);
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY | (n == stream.left ? NGHTTP2_DATA_FLAG_EOF : 0);
  return ssize_t(n);
}
ssize_t client_piece_size(nghttp2_session*, uint8_t, int32_t, int32_t, int32_t, uint32_t max, void*) {
  return ssize_t(std::min(max, kLargestPiece));
}

nghttp2_session* open_client_session(LibraryClient& client) {
  nghttp2_session* session = nullptr;
  nghttp2_session_callbacks* to = nullptr;
  nghttp2_option* options = nullptr;
  if (nghttp2_session_callbacks_new(&to) != 0 || nghttp2_option_new(&options) != 0) throw std::bad_alloc();
  nghttp2_session_callbacks_set_on_header_callback(to, client_field);
  nghttp2_session_callbacks_set_on_frame_recv_callback(to, client_frame);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(to, client_data);
  nghttp2_session_callbacks_set_on_stream_close_callback(to, client_close);
  nghttp2_session_callbacks_set_send_data_callback(to, client_send);
  nghttp2_session_callbacks_set_data_source_read_length_callback(to, client_piece_size);
  nghttp2_option_set_no_auto_window_update(options, 1);
  nghttp2_option_set_no_closed_streams(options, 1);
  nghttp2_option_set_peer_max_concurrent_streams(options, kStreamsAtFirst);
  nghttp2_option_set_max_outbound_ack(options, kMostAcks);
  nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(options, 1);  // metadata of gRPC servers
  const int rv = nghttp2_session_client_new2(&session, to, &client, options);
  nghttp2_option_del(options);
  nghttp2_session_callbacks_del(to);
  if (rv != 0) throw std::bad_alloc();
  return session;
}

nghttp2_nv pair_of(std::string_view name, std::string_view value) {
  auto bytes = [](std::string_view text) { return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data())); };
  return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};  // the library copies
}

// --- requests --------------------------------------------------------------------------------------------------------

LibraryClient::LibraryClient() : session_(open_client_session(*this)) {
  const std::array<nghttp2_settings_entry, 4> settings{{
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kFirstWindow},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, kLargestPiece},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, uint32_t(kMostFields)},
  }};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
}

bool LibraryClient::has_room() const {
  const uint32_t allowed = nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
  return !finished_ && streams_.size() < std::min(allowed, kMostStreams) &&
         nghttp2_session_check_request_allowed(session_) != 0;
}

void LibraryClient::send(const ClientRequest& request, ClientAnswer& answer) {
  nva_.clear();
  for (const auto& [name, value] : {std::pair<std::string_view, std::string_view>{":method", request.method},
                                    {":scheme", request.scheme},
                                    {":authority", request.authority},
                                    {":path", request.target}})
    nva_.push_back(pair_of(name, value));
  for (size_t i = 0; i < request.fields.size(); ++i)
    nva_.push_back(pair_of(request.fields[i].name, request.fields[i].value));
  const int32_t id = int32_t(nghttp2_session_get_next_stream_id(session_));
  ClientStream& stream = streams_[id];
  stream.answer = &answer;
  stream.pieces.reserve(request.more.size() + 1);
  stream.pieces.assign(request.more.rbegin(), request.more.rend());
  if (!request.body.empty()) stream.pieces.push_back(request.body);
  stream.left = request.body_size();
  nghttp2_data_provider body;
  body.source.ptr = &stream;
  body.read_callback = client_piece;
  const int32_t got =
      nghttp2_submit_request(session_, nullptr, nva_.data(), nva_.size(), stream.left == 0 ? nullptr : &body, nullptr);
  if (got == id) return;
  streams_.erase(id);
  finished_ = true;
  answer.on_failed(lost("the request cannot be sent: " + std::string(nghttp2_strerror(got))));
}

LibraryClient::Streams::iterator LibraryClient::find(const ClientAnswer& answer) {
  return std::find_if(streams_.begin(), streams_.end(),
                      [&](const auto& each) { return each.second.answer == &answer; });
}

void LibraryClient::cancel(ClientAnswer& answer) {
  auto found = find(answer);
  if (found == streams_.end()) return;
  found->second.answer = nullptr;
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, found->first, NGHTTP2_CANCEL);
}

void LibraryClient::consume(ClientAnswer& answer, size_t n) {
  auto found = find(answer);
  if (found == streams_.end()) return;  // also when dead_
  const size_t given = std::min(n, found->second.held);
  found->second.held -= given;
  nghttp2_session_consume_stream(session_, found->first, given);
}

// --- output ----------------------------------------------------------------------------------------------------------

void LibraryClient::fill() {
  while (!dead_ && output_.size() < kFilledAhead) {
    const uint8_t* at = nullptr;
    const ssize_t n = nghttp2_session_mem_send(session_, &at);
    if (n > 0) output_.copy(at, size_t(n));
    if (n < 0) fail_all(lost("HTTP/2 cannot go on: " + std::string(nghttp2_strerror(int(n)))));
    if (n <= 0) return;
  }
}

size_t LibraryClient::pending(std::span<iovec> out) {
  fill();
  // The library's last words are in the output: it does not read on after an error.
  if (!dead_ && nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0)
    fail_all(lost("the server breaks the rules of HTTP/2, or does not speak it"));
  return output_.gather(out);
}

int LibraryClient::send_piece(ClientStream& stream, const uint8_t* head, size_t n) {
  constexpr size_t kFrameHead = 9;
  output_.copy(head, kFrameHead);
  stream.left -= n;
  while (n > 0) {
    const base::Bytes& piece = stream.pieces.back();
    const size_t part = std::min(n, piece.size() - stream.sent);
    if (part < kCopyAtMost)
      output_.copy(piece.data() + stream.sent, part);
    else
      output_.refer(piece.slice(stream.sent, part));
    n -= part, stream.sent += part;
    if (stream.sent < piece.size()) break;
    stream.pieces.pop_back();
    stream.sent = 0;
  }
  return output_.size() < kFilledAhead ? 0 : NGHTTP2_ERR_PAUSE;
}

// --- answers ---------------------------------------------------------------------------------------------------------

std::span<std::byte> LibraryClient::receive_buffer() {
  const size_t here = walker_.large_payload();
  ClientStream* stream = here == 0 || dead_ ? nullptr : stream_of(walker_.head().stream);
  if (!stream || !stream->told) return {};
  const auto to = stream->answer->receive_buffer();
  return to.first(std::min(to.size(), here));
}

void LibraryClient::feed(std::span<const std::byte> bytes) {
  if (dead_) return;
  walker_.pass(bytes);
  const ssize_t n = nghttp2_session_mem_recv(session_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (n < 0) fail_all(lost("HTTP/2 cannot go on: " + std::string(nghttp2_strerror(int(n)))));
}

ClientStream* LibraryClient::stream_of(int32_t id) {
  auto found = streams_.find(id);
  return found == streams_.end() || !found->second.answer ? nullptr : &found->second;
}

int LibraryClient::on_field(int32_t id, std::string_view name, std::string_view value) {
  ClientStream* stream = stream_of(id);
  if (!stream) return 0;
  stream->field_bytes += name.size() + value.size() + 32;
  if (stream->field_bytes > kMostFields) {
    std::exchange(stream->answer, nullptr)
        ->on_failed(base::failure(base::Code::kResourceExhausted, "the answer's fields are too large"));
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;  // the library resets the stream
  }
  if (name == ":status")
    std::from_chars(value.data(), value.data() + value.size(), stream->status);
  else
    stream->fields.add(name, trim(value));
  return 0;
}

int LibraryClient::on_frame(const nghttp2_frame& frame) {
  if (frame.hd.type == NGHTTP2_GOAWAY) finished_ = true;
  ClientStream* stream = stream_of(frame.hd.stream_id);
  if (!stream) return 0;
  const bool carries = frame.hd.type == NGHTTP2_HEADERS || frame.hd.type == NGHTTP2_DATA;
  if (carries && (frame.hd.flags & NGHTTP2_FLAG_END_STREAM)) stream->whole = true;
  if (frame.hd.type == NGHTTP2_HEADERS) on_fields(*stream);
  return 0;
}

void LibraryClient::on_fields(ClientStream& stream) {
  if (stream.told) return;  // trailers
  const Fields fields = std::exchange(stream.fields, {});
  if (stream.status < 200) return;
  stream.told = true;
  stream.answer->on_head(stream.status, fields);
}

int LibraryClient::on_data(int32_t id, std::span<const std::byte> piece) {
  ClientStream* stream = stream_of(id);
  const size_t taken = stream ? std::min(stream->answer->on_body(piece), piece.size()) : piece.size();
  if (nghttp2_session_consume_connection(session_, piece.size()) != 0) return NGHTTP2_ERR_CALLBACK_FAILURE;
  if (nghttp2_session_consume_stream(session_, id, taken) != 0) return NGHTTP2_ERR_CALLBACK_FAILURE;
  if (stream) widen(id, *stream, piece.size(), piece.size() - taken);
  return 0;
}

void LibraryClient::widen(int32_t id, ClientStream& stream, size_t came, size_t held) {
  stream.held += held;
  if (stream.held > 0 || stream.passed == SIZE_MAX) return;
  stream.passed += came;
  if (stream.passed < kFirstWindow / 2) return;
  stream.passed = SIZE_MAX;
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, id, kStreamWindow);
}

int LibraryClient::on_close(int32_t id, uint32_t code) {
  auto node = streams_.extract(id);
  if (node.empty()) return 0;
  const ClientStream& stream = node.mapped();
  if (!stream.answer) return 0;
  if (code != NGHTTP2_NO_ERROR)
    stream.answer->on_failed(reset_status(code));
  else if (!stream.whole || !stream.told)
    stream.answer->on_failed(lost("the server has ended the request without an answer"));
  else
    stream.answer->on_end(stream.fields);
  return 0;
}

void LibraryClient::fail_all(const base::Status& why) {
  finished_ = dead_ = true;
  for (auto& [id, stream] : std::exchange(streams_, {}))
    if (stream.answer) stream.answer->on_failed(why);
}

}  // namespace

std::unique_ptr<ClientCodec> make_library_h2_client() { return std::make_unique<LibraryClient>(); }

}  // namespace weir::test
