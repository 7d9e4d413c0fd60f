#include "wire/h1_response.h"

#include <algorithm>
#include <charconv>

#include "wire/text.h"

namespace weir::wire {
namespace {

using base::Status;

Status broken(std::string_view what) {
  return base::failure(base::Code::kUnavailable, "not HTTP/1.1: " + std::string(what));
}

// All of it digits.
template <class T>
bool read_digits(std::string_view text, T& out, int radix) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, radix);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_status(std::string_view line, int& status) {
  return line.size() >= 12 && (line.starts_with("HTTP/1.1 ") || line.starts_with("HTTP/1.0 ")) &&
         read_digits(line.substr(9, 3), status, 10) && status >= 100 && (line.size() == 12 || line[12] == ' ');
}

}  // namespace

void H1Response::begin(Body body) {
  state_ = State::kHead;
  body_ = body;
  line_.clear();
  left_ = length_ = 0;
  heads_ = trailers_ = 0;
  chunked_ = sized_ = reusable_ = false;
}

// Moves what belongs to it; false while the end of the line (of the head: the empty line) has not come.
bool H1Response::take_line(std::string_view& bytes, size_t limit, Status& status) {
  std::string_view mark = state_ == State::kHead ? "\r\n\r\n" : "\r\n";
  size_t from = line_.size() < mark.size() ? 0 : line_.size() - mark.size() + 1;
  const size_t most = limit + mark.size(), before = line_.size();
  size_t n = std::min(bytes.size(), most - before);
  line_.append(bytes.substr(0, n));
  size_t at = line_.find(mark, from);
  if (at == line_.npos) {
    bytes.remove_prefix(n);
    if (line_.size() == most) status = broken("a head or a line is too long");
    return false;
  }
  bytes.remove_prefix(at + mark.size() - before);
  line_.resize(at);
  return true;
}

Status H1Response::hand_on(std::string_view& bytes, ResponseListener& listener) {
  const size_t n = size_t(std::min<uint64_t>(left_, bytes.size()));
  const std::string_view piece = bytes.substr(0, n);
  bytes.remove_prefix(n);
  left_ -= n;
  return listener.on_body(piece);
}

Status H1Response::feed(std::string_view& bytes, ResponseListener& listener) {
  Status s;
  while (!bytes.empty() && s.ok() && !done()) s = step(bytes, listener);
  return s;
}

Status H1Response::step(std::string_view& bytes, ResponseListener& listener) {
  Status s;
  switch (state_) {
    case State::kHead:
      if (!take_line(bytes, most_head_ - std::min(heads_, most_head_), s)) break;
      heads_ += line_.size();
      s = read_head(line_, listener);
      line_.clear();
      break;
    case State::kLength:
      s = hand_on(bytes, listener);
      if (left_ == 0) state_ = State::kDone;
      break;
    case State::kToTheEnd: return hand_on(bytes, listener);
    case State::kChunkSize:
      if (take_line(bytes, kMostLine, s)) s = read_chunk_size();
      break;
    case State::kChunk:
      s = hand_on(bytes, listener);
      if (left_ == 0) state_ = State::kChunkEnd;
      break;
    case State::kChunkEnd:
      if (!take_line(bytes, 0, s)) break;
      if (!line_.empty()) return broken("a chunk's end");
      state_ = State::kChunkSize;
      break;
    case State::kTrailers: return take_trailer(bytes);
    case State::kDone: break;
  }
  return s;
}

Status H1Response::take_trailer(std::string_view& bytes) {
  Status s;
  if (!take_line(bytes, kMostTrailers - std::min(trailers_, kMostTrailers), s)) return s;
  trailers_ += line_.size();
  if (line_.empty()) state_ = State::kDone;
  line_.clear();
  return s;
}

Status H1Response::read_chunk_size() {
  std::string_view size = trim(std::string_view(line_).substr(0, line_.find(';')));
  if (size.size() > 15 || !read_digits(size, left_, 16)) return broken("a chunk's size");
  line_.clear();
  state_ = left_ == 0 ? State::kTrailers : State::kChunk;
  return {};
}

Status H1Response::read_head(std::string_view head, ResponseListener& listener) {
  int status = 0;
  const std::string_view first = head.substr(0, head.find("\r\n"));
  if (!read_status(first, status)) return broken("its status line");
  if (status < 200 && status != 101) return {};  // the real one comes behind it
  reusable_ = first.starts_with("HTTP/1.1");
  Fields fields;
  for (size_t at = first.size(); at < head.size();) {
    const size_t end = std::min(head.find("\r\n", at + 2), head.size());
    if (Status s = read_field(head.substr(at + 2, end - at - 2), fields); !s.ok()) return s;
    at = end;
  }
  if (chunked_ && sized_) return broken("two lengths of one body");
  choose_body(status);
  return listener.on_head(status, fields);
}

void H1Response::choose_body(int status) {
  length_ = left_;
  if (body_ == Body::kNone || bodiless(status)) {
    state_ = State::kDone;
    return;
  }
  state_ = chunked_ ? State::kChunkSize : !sized_ ? State::kToTheEnd : left_ == 0 ? State::kDone : State::kLength;
  if (state_ != State::kToTheEnd) return;
  left_ = UINT64_MAX;
  reusable_ = false;
}

Status H1Response::read_field(std::string_view line, Fields& fields) {
  size_t colon = line.find(':');
  if (colon == line.npos || colon == 0 || line[colon - 1] == ' ' || line[0] == ' ' || line[0] == '\t')
    return broken("a field");
  const std::string_view name = line.substr(0, colon), value = trim(line.substr(colon + 1));
  fields.add_lowered(name, value);
  if (same_text(name, "transfer-encoding")) {
    if (chunked_ || !same_text(value, "chunked")) return broken("a transfer coding");
    chunked_ = true;
  } else if (same_text(name, "content-length")) {
    if (sized_ || value.size() > 18 || !read_digits(value, left_, 10)) return broken("a content-length");
    sized_ = true;
  } else if (same_text(name, "connection") && has_element(value, "close")) {
    reusable_ = false;
  }
  return {};
}

Status H1Response::end() {
  if (state_ == State::kToTheEnd) state_ = State::kDone;
  return done() ? Status{} : base::failure(base::Code::kUnavailable, "closed before the end of the answer");
}

}  // namespace weir::wire
