#include "wire/h2_client_answers.h"

#include <algorithm>
#include <string>
#include <utility>

#include <nghttp2/nghttp2.h>

namespace weir::wire {
namespace {

base::Status reset_status(uint32_t code) {
  if (code == NGHTTP2_REFUSED_STREAM)
    return base::failure(base::Code::kUnavailable, "the server has refused the request unseen");
  const std::string text = std::string("the server has reset the request: ") + nghttp2_http2_strerror(code);
  if (code == NGHTTP2_CANCEL) return base::failure(base::Code::kCancelled, text);
  if (code == NGHTTP2_ENHANCE_YOUR_CALM) return base::failure(base::Code::kResourceExhausted, text);
  return base::failure(base::Code::kUnavailable, text);
}

// RFC 9110 §6.4.1.
bool has_no_body(const ClientStream& stream) { return stream.bodiless || stream.status == 204 || stream.status == 304; }

bool has_its_length(const ClientStream& stream) { return stream.length == -1 || stream.came == stream.length; }

}  // namespace

// --- heads and trailers ----------------------------------------------------------------------------------------------

void H2ClientAnswers::block(ClientStream& stream, const H2ClientDecoder::Head& head, Ends ends) {
  stream.began = true;
  if (!has_room(stream, head.bytes)) return;
  stream.field_bytes += head.bytes;
  if (!head.well_formed) return break_off(stream, NGHTTP2_PROTOCOL_ERROR);
  stream.status == 0 ? this->head(stream, head, ends) : trailers(stream, head, ends);
}

void H2ClientAnswers::part_of_block(ClientStream& stream, size_t bytes) { (void)has_room(stream, bytes); }

// False: the answer has more fields than it may, and has failed.
bool H2ClientAnswers::has_room(ClientStream& stream, size_t bytes) {
  if (stream.field_bytes + bytes <= ClientCodec::kMostFields) return true;
  output_.reset(stream.id, NGHTTP2_INTERNAL_ERROR);
  fail(stream, base::failure(base::Code::kResourceExhausted, "the answer's fields are too large"));
  return false;
}

// Those of 1xx are passed over.
void H2ClientAnswers::head(ClientStream& stream, const H2ClientDecoder::Head& head, Ends ends) {
  if (head.status < 200) return ends == Ends::kYes ? break_off(stream, NGHTTP2_PROTOCOL_ERROR) : void();
  stream.status = head.status;
  stream.length = has_no_body(stream) ? 0 : head.content_length;
  if (ends == Ends::kYes && !has_its_length(stream)) return break_off(stream, NGHTTP2_PROTOCOL_ERROR);
  const int32_t id = stream.id;
  stream.answer->on_head(head.status, head.fields);
  ClientStream* left = ends == Ends::kYes ? streams_.find(id) : nullptr;
  if (left) end(*left, {});
}

void H2ClientAnswers::trailers(ClientStream& stream, const H2ClientDecoder::Head& head, Ends ends) {
  if (head.content_length != -1) {
    if (stream.length != -1) return break_off(stream, NGHTTP2_PROTOCOL_ERROR);
    stream.length = head.content_length;
  }
  if (ends == Ends::kNo || !has_its_length(stream)) return break_off(stream, NGHTTP2_PROTOCOL_ERROR);
  end(stream, head.fields);
}

// --- bodies ----------------------------------------------------------------------------------------------------------

void H2ClientAnswers::content(ClientStream& stream, std::string_view piece) {
  if (!receive(stream, piece.size())) return;
  stream.came += int64_t(piece.size());
  if (stream.status == 0 || (stream.length != -1 && stream.came > stream.length))
    return break_off(stream, NGHTTP2_PROTOCOL_ERROR);
  const int32_t id = stream.id;
  const size_t taken = std::min(stream.answer->on_body(std::as_bytes(std::span(piece))), piece.size());
  ClientStream* left = streams_.find(id);
  if (!left) return;
  give_back(*left, taken);
  widen(*left, piece.size(), piece.size() - taken);
}

void H2ClientAnswers::padding(ClientStream& stream, size_t n) {
  if (receive(stream, n)) give_back(stream, n);
}

void H2ClientAnswers::end_of_data(ClientStream& stream) {
  if (stream.status == 0 || !has_its_length(stream)) return break_off(stream, NGHTTP2_PROTOCOL_ERROR);
  end(stream, {});
}

// False: the server does not keep to the stream's window, and the stream has ended.
bool H2ClientAnswers::receive(ClientStream& stream, size_t n) {
  stream.received += int64_t(n);
  if (stream.received <= stream.local_window) return true;
  break_off(stream, NGHTTP2_FLOW_CONTROL_ERROR);
  return false;
}

// By half a window at once.
void H2ClientAnswers::give_back(ClientStream& stream, size_t n) {
  stream.consumed += int64_t(n);
  if (2 * stream.consumed < stream.local_window || stream.whole) return;
  stream.received -= stream.consumed;
  output_.window_update(stream.id, std::exchange(stream.consumed, 0));
}

void H2ClientAnswers::widen(ClientStream& stream, size_t came, size_t held) {
  stream.held += held;
  if (stream.held > 0 || stream.passed == SIZE_MAX) return;
  stream.passed += came;
  if (stream.passed < kFirstWindow / 2) return;
  stream.passed = SIZE_MAX;
  output_.window_update(stream.id, kLargeWindow - std::exchange(stream.local_window, kLargeWindow));
}

void H2ClientAnswers::consume(ClientAnswer& answer, size_t n) {
  ClientStream* stream = streams_.find(answer);
  if (!stream) return;
  const size_t given = std::min(n, stream->held);
  stream->held -= given;
  give_back(*stream, given);
}

// --- ends ------------------------------------------------------------------------------------------------------------

// An answer is told of its end when its request has gone, too.
void H2ClientAnswers::end(ClientStream& stream, const Fields& trailers) {
  stream.whole = true;
  if (stream.left == 0) return finish(stream, trailers);
  stream.trailers = trailers;
}

void H2ClientAnswers::finish(ClientStream& stream, const Fields& trailers) {
  ClientAnswer& answer = *stream.answer;
  streams_.close(stream);
  answer.on_end(trailers);
}

void H2ClientAnswers::finish_late(int32_t id) {
  ClientStream* stream = streams_.find(id);
  if (!stream) return;
  const Fields trailers = std::move(stream->trailers);
  finish(*stream, trailers);
}

void H2ClientAnswers::fail(ClientStream& stream, const base::Status& why) {
  ClientAnswer& answer = *stream.answer;
  streams_.close(stream);
  answer.on_failed(why);
}

void H2ClientAnswers::break_off(ClientStream& stream, uint32_t code) {
  output_.reset(stream.id, code);
  fail(stream, reset_status(code));
}

// NO_ERROR: it wants no more of the request, whose answer is whole (§8.1).
void H2ClientAnswers::reset_by_server(ClientStream& stream, uint32_t code) {
  if (code != NGHTTP2_NO_ERROR) return fail(stream, reset_status(code));
  if (stream.whole) return finish_late(stream.id);
  fail(stream, base::failure(base::Code::kUnavailable, "the server has ended the request without an answer"));
}

void H2ClientAnswers::refuse_behind(int32_t last) {
  for (int32_t id : streams_.ids()) {
    ClientStream* stream = id > last ? streams_.find(id) : nullptr;
    if (stream) fail(*stream, reset_status(NGHTTP2_REFUSED_STREAM));
  }
}

void H2ClientAnswers::fail_all(const base::Status& why) {
  for (int32_t id : streams_.ids())
    if (ClientStream* stream = streams_.find(id)) fail(*stream, why);
}

void H2ClientAnswers::cancel(ClientAnswer& answer) {
  ClientStream* stream = streams_.find(answer);
  if (!stream) return;
  output_.reset(stream->id, NGHTTP2_CANCEL);
  streams_.close(*stream);
}

}  // namespace weir::wire
