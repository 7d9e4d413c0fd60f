#include "net/reply.h"

#include <algorithm>
#include <charconv>

#include "wire/text.h"

namespace weir::net {
namespace {

using base::Code;
using base::failure;
using base::Status;

Status broken(std::string_view what) {
  return failure(Code::kUnavailable, "its server's answer is not HTTP/1.1: " + std::string(what));
}

bool same(std::string_view a, std::string_view lower) {
  auto equal = [](char x, char y) { return (x >= 'A' && x <= 'Z' ? char(x - 'A' + 'a') : x) == y; };
  return a.size() == lower.size() && std::equal(a.begin(), a.end(), lower.begin(), equal);
}

// All of it digits.
template <class T>
bool number(std::string_view text, T& out, int base) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc() && end == text.data() + text.size();
}

Status refusal(int status) {
  std::string text = "its server answers with status " + std::to_string(status);
  if (status == 404 || status == 410) return failure(Code::kNotFound, std::move(text));
  if (status >= 300 && status < 400) text += "; redirects are not followed";
  return failure(Code::kUnavailable, std::move(text));
}

}  // namespace

// Moves what belongs to it; false while the end of the line (of the head: the empty line) has not come.
bool Reply::take_line(std::string_view& bytes, size_t limit, Status& status) {
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

Status Reply::keep(std::string_view& bytes) {
  size_t n = size_t(std::min<uint64_t>(left_, bytes.size()));
  if (body_.size() + n > max_body_)
    return failure(Code::kResourceExhausted, "it is larger than " + std::to_string(max_body_) + " bytes");
  body_.append(bytes.substr(0, n));
  bytes.remove_prefix(n);
  left_ -= n;
  return {};
}

Status Reply::feed(std::string_view bytes) {
  Status s;
  while (!bytes.empty() && s.ok() && state_ != State::kDone) {
    switch (state_) {
      case State::kHead:
        if (!take_line(bytes, kMostHead - std::min(heads_, kMostHead), s)) break;
        heads_ += line_.size();
        s = read_head(line_);
        line_.clear();
        break;
      case State::kLength:
        s = keep(bytes);
        if (left_ == 0) state_ = State::kDone;
        break;
      case State::kToTheEnd: s = keep(bytes); break;
      case State::kChunkSize:
        if (take_line(bytes, kMostLine, s)) s = read_chunk_size();
        break;
      case State::kChunk:
        s = keep(bytes);
        if (left_ == 0) state_ = State::kChunkEnd;
        break;
      case State::kChunkEnd:
        if (!take_line(bytes, 0, s)) break;
        if (!line_.empty()) return broken("a chunk's end");
        state_ = State::kChunkSize;
        break;
      case State::kTrailers:
        if (!take_line(bytes, kMostTrailers - std::min(trailers_, kMostTrailers), s)) break;
        trailers_ += line_.size();
        if (line_.empty()) state_ = State::kDone;
        line_.clear();
        break;
      case State::kDone: break;
    }
  }
  return s;
}

Status Reply::read_chunk_size() {
  std::string_view size = wire::trim(std::string_view(line_).substr(0, line_.find(';')));
  if (size.size() > 15 || !number(size, left_, 16)) return broken("a chunk's size");
  line_.clear();
  state_ = left_ == 0 ? State::kTrailers : State::kChunk;
  return {};
}

Status Reply::read_head(std::string_view head) {
  int status = 0;
  std::string_view first = head.substr(0, head.find("\r\n"));
  bool good = first.size() >= 12 && (first.starts_with("HTTP/1.1 ") || first.starts_with("HTTP/1.0 ")) &&
              number(first.substr(9, 3), status, 10) && (first.size() == 12 || first[12] == ' ');
  if (!good) return broken("its status line");
  if (status >= 100 && status < 200 && status != 101) return {};  // the real one comes behind it
  if (status != 200) return refusal(status);
  for (size_t at = first.size(); at < head.size();) {
    size_t end = std::min(head.find("\r\n", at + 2), head.size());
    if (Status s = read_field(head.substr(at + 2, end - at - 2)); !s.ok()) return s;
    at = end;
  }
  if (chunked_ && sized_) return broken("two lengths of one body");
  if (sized_ && left_ > max_body_)
    return failure(Code::kResourceExhausted, "it is larger than " + std::to_string(max_body_) + " bytes");
  state_ = chunked_ ? State::kChunkSize : !sized_ ? State::kToTheEnd : left_ == 0 ? State::kDone : State::kLength;
  if (state_ == State::kToTheEnd) left_ = UINT64_MAX;
  return {};
}

Status Reply::read_field(std::string_view line) {
  size_t colon = line.find(':');
  if (colon == line.npos || colon == 0 || line[colon - 1] == ' ' || line[0] == ' ' || line[0] == '\t')
    return broken("a field");
  std::string_view name = line.substr(0, colon), value = wire::trim(line.substr(colon + 1));
  if (same(name, "transfer-encoding")) {
    if (chunked_ || !same(value, "chunked")) return broken("a transfer coding");
    chunked_ = true;
  } else if (same(name, "content-length")) {
    if (sized_ || value.size() > 18 || !number(value, left_, 10)) return broken("a content-length");
    sized_ = true;
  } else if (same(name, "content-encoding") && !same(value, "identity")) {
    return failure(Code::kUnavailable, "its server has coded the content, though asked not to");
  }
  return {};
}

Status Reply::end() {
  if (state_ == State::kToTheEnd) state_ = State::kDone;
  return done() ? Status{} : failure(Code::kUnavailable, "its server has closed before the end of the answer");
}

}  // namespace weir::net
