// A response's head, its framing (RFC 9112 §6) and its turn in the pipeline.
#include "wire/h1_exchange.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "wire/body_starts.h"
#include "wire/date.h"
#include "wire/h1_connection.h"
#include "wire/h1_queue.h"
#include "wire/h1_reader.h"
#include "wire/router.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr uint64_t kDiscardableUnread = 256 << 10;  // of an unread request body; more, and closing is cheaper

// A number's digits, without an allocation.
class Digits {
 public:
  explicit Digits(uint64_t n, int base = 10)
      : size_(size_t(std::to_chars(text_.data(), text_.data() + text_.size(), n, base).ptr - text_.data())) {}
  operator std::string_view() const { return {text_.data(), size_}; }

 private:
  std::array<char, 20> text_;
  size_t size_;
};

char* put(char* at, std::string_view text) {
  if (!text.empty()) std::memcpy(at, text.data(), text.size());
  return at + text.size();
}

// The length is one that the compiler knows. In pieces: of more than a few words it would make a loop over bytes.
template <size_t kSize>
char* put_word(char* at, std::string_view text) {
  constexpr size_t kPiece = 16;
  size_t done = 0;
  for (; done + kPiece <= kSize; done += kPiece) std::memcpy(at + done, text.data() + done, kPiece);
  std::memcpy(at + done, text.data() + done, kSize % kPiece);
  return at + kSize;
}

constexpr size_t kAroundField = 4;  // ": " and the end of its line

char* put_field(char* at, std::string_view name, std::string_view value) {
  at = put_word<2>(put(at, name), ": ");
  char* const text = at;
  at = put(at, value);
  // No service can make its text another field, or another response.
  if (has_control(value))
    for (char* c = text; c != at; ++c)
      if (*c == '\r' || *c == '\n' || *c == '\0') *c = ' ';
  return put_word<2>(at, "\r\n");
}

void append_field(std::string& text, std::string_view name, std::string_view value) {
  const size_t before = text.size();
  text.resize(before + name.size() + value.size() + kAroundField);
  put_field(text.data() + before, name, value);
}

// Trailer fields may not be about framing or routing (RFC 9110 §6.5.1).
bool may_trail(std::string_view name) {
  return !is_about_connection(name) && name != "content-length" && name != "host";
}

// A whole answer of 200: its head with `extra` fields, and its body.
void write_small(Output& output, HttpDate* date, const Fields& extra, std::string_view content_type,
                 std::string_view body) {
  const Digits length(body.size());
  const std::string_view digits = length;
  constexpr std::string_view kBegin = "HTTP/1.1 200 OK\r\n", kType = "content-type: ", kLength = "\r\ncontent-length: ";
  const size_t most = kBegin.size() + HttpDate::kLine + kType.size() + content_type.size() + kLength.size() +
                      digits.size() + extra.bytes() + extra.size() * kAroundField + 4 + body.size();
  char* const begin = output.room(most);
  char* at = put_word<kBegin.size()>(begin, kBegin);
  if (date) at = put_word<HttpDate::kLine>(at, date->line());
  at = put(put_word<kType.size()>(at, kType), content_type);
  at = put_word<2>(put(put_word<kLength.size()>(at, kLength), digits), "\r\n");
  for (size_t i = 0; i < extra.size(); ++i)
    if (auto [name, value] = extra[i]; !is_about_connection(name)) at = put_field(at, name, value);
  at = put(put_word<2>(at, "\r\n"), body);
  output.add(size_t(at - begin));
}

}  // namespace

H1Exchange::H1Exchange(H1Queue& queue) : queue_(queue), connection_(queue.connection()) {}

void H1Exchange::start(const Head& head, Fields&& fields, const PeerInfo& peer) {
  head_.clear();
  request_.kept = HeadKept::kNot;
  request_.target.clear();
  std::swap(request_.fields, fields);  // each keeps the other's memory in use
  request_.version = head.version;
  request_.method.assign(head.method);
  request_.authority.assign(head.host);
  if (head.target.empty() || head.target[0] == '?') request_.target = "/";  // RFC 9110 §4.2.3, of an absolute form
  request_.target.append(head.target);
  request_.content_length = head.content_length;
  request_.peer = &peer;
  keep_alive_ = head.keep_alive;
  await_100_ = head.expect_continue;
  te_trailers_ = known_te_trailers_ = head.te_trailers;
  record_.began = connection_.wire.now();
}

void H1Exchange::start_again(const PeerInfo& peer) {
  request_.peer = &peer;
  request_.kept = HeadKept::kAgain;
  te_trailers_ = known_te_trailers_;
  record_.began = connection_.wire.now();
}

void H1Exchange::forget_head() {
  head_.clear();
  request_.kept = HeadKept::kNot;
  match.reset();
  request_.method.clear();
  request_.authority.clear();
  request_.target.clear();
  request_.fields.clear();
  request_.version = Version::kHttp11;
  request_.content_length = -1;
}

// Ready for another request; strings keep their memory.
void H1Exchange::clear() {
  if (head_.empty()) forget_head();
  forget_client();
  content_ = base::Bytes();
  extra_fields_.clear();
  listener_.reset();
  record_.clear();
  plan_ = Plan();
  upgraded_ = begun_ = turn_ = headed_ = ended_ = gone_ = cut_ = close_ = read_whole_ = await_100_ = te_trailers_ =
      above_ = false;
  keep_alive_ = true;
  framing_ = Framing::kNone;
  left_ = from_ = to_ = unconsumed_ = received_ = 0;
  small_.fit(0);
  usage_.reset();
  held_.reset();
}

base::Time H1Exchange::now() const { return connection_.wire.now(); }
base::MemoryLedger* H1Exchange::memory() { return connection_.memory; }

size_t H1Exchange::backlog() const {
  size_t waiting = held_ ? held_->bytes : 0;
  uint64_t sent = std::max(from_, connection_.output.sent());
  return waiting + (to_ > sent ? size_t(to_ - sent) : 0);
}

H1Exchange::Held& H1Exchange::held() {
  if (!held_) held_ = std::make_unique<Held>();
  return *held_;
}

void H1Exchange::head(Response response) {
  if (!open() || headed_) return;
  headed_ = true;
  upgraded_ = response.status == 101;
  record_.status = response.status;
  if (turn_)
    write_head(response);
  else
    held().response = std::move(response);
}

void H1Exchange::body(base::Bytes piece) {
  if (!open() || !headed_ || piece.empty()) return;
  if (!charge_piece(connection_.memory, piece, small_)) {
    record_.reject = reason::kOverload;
    return reset(Reset::kInternal);
  }
  record_.bytes_out += piece.size();
  usage_.note(*this);
  if (auto* starts = connection_.env.starts; starts && begun_ && !upgraded_) starts->sent(*this, piece);
  if (turn_) {
    write_body(std::move(piece));
  } else {
    held().bytes += piece.size();
    held().body.push_back(std::move(piece));
  }
  above_ = above_ || backlog() >= kLowWater;
}

void H1Exchange::end(Fields trailers) {
  if (!open() || !headed_) return;
  if (!turn_) {
    ended_ = true;
    held().trailers = std::move(trailers);
    return;
  }
  write_end(trailers);
  queue_.pass_turn();
}

// The same bytes as by head(), body() and end(), written where they leave from.
bool H1Exchange::respond_small(int status, std::string_view content_type, std::string_view body) {
  if (status != 200 || !open() || headed_ || !turn_ || await_100_ || body.empty() || body.size() > Output::kCopied)
    return false;
  if (request_.version != Version::kHttp11 || bodiless(status) || content_type.empty() || has_control(content_type))
    return false;
  framing_ = Framing::kLength;
  at_once_ = true;
  const bool closes = closes_after();
  at_once_ = false;
  if (closes || connection_.env.starts || extra_fields_.has("content-length")) return false;
  if (!small_.add(connection_.memory, body.size())) return false;
  headed_ = true;
  record_.status = status;
  record_.bytes_out += body.size();
  usage_.note(*this);
  write_small(connection_.output, connection_.env.date, extra_fields_, content_type, body);
  ended_ = true;  // not before: where there is no memory for the bytes, reset() has to cut
  above_ = above_ || backlog() >= kLowWater;
  wrote();
  queue_.pass_turn();
  return true;
}

void H1Exchange::reset(Reset) {
  if (!open()) return;
  ended_ = cut_ = close_ = true;
  connection_.last = true;
  to_ = connection_.output.total();  // with what an answer has written before it had no memory for the rest
  if (turn_) queue_.pass_turn();
  connection_.notify_output();
}

void H1Exchange::consume(size_t n) {
  bool held = queue_.reader().held_back();
  unconsumed_ -= std::min<uint64_t>(n, unconsumed_);
  if (held && !queue_.reader().held_back()) connection_.notify_output();
}

// Responses that were made while other requests had the turn go out now.
void H1Exchange::take_turn() {
  turn_ = true;
  from_ = to_ = connection_.output.total();
  if (await_100_ && !headed_) write_continue();
  if (!held_) return;
  std::unique_ptr<Held> held = std::move(held_);
  write_head(held->response);
  for (auto& piece : held->body) write_body(std::move(piece));
  if (ended_ && !cut_) write_end(held->trailers);
}

void H1Exchange::write_continue() {
  if (!begun_ || read_whole_ || plan_.body == BodyPlan::kIgnore) return;
  await_100_ = false;
  connection_.output.append("HTTP/1.1 100 Continue\r\n\r\n");
  wrote();
}

bool H1Exchange::bodiless(int status) const {
  return status < 200 || status == 204 || status == 304 ||
         (request_.method.starts_with('H') && request_.method == "HEAD");
}

// Whether this response is the last of its connection, as far as can be told at its head.
bool H1Exchange::closes_after() const {
  if (close_ || !keep_alive_ || framing_ == Framing::kUntilClose) return true;
  if ((connection_.draining || connection_.overloaded(base::Overload::kClose)) && &queue_.back() == this) return true;
  if (read_whole_ || !begun_) return false;
  // A stream's answer may go on until all of its request is read, unless it is whole here and now.
  if (plan_.body == BodyPlan::kStream && !at_once_ && !ended_) return false;
  // The client may or may not send a body that it was not asked for.
  return await_100_ || queue_.reader().unread(*this) > kDiscardableUnread;
}

void H1Exchange::write_head(const Response& response) {
  // A client that asked first sends its body only after a 100, also when the answer has already begun.
  if (await_100_ && response.status == 200) write_continue();
  std::string text = base::SpareText::take();
  int status = response.status;
  if (status == 200) {
    text += "HTTP/1.1 200 OK\r\n";
  } else {
    text.append("HTTP/1.1 ").append(Digits(uint64_t(std::clamp(status, 100, 999))));
    text.append(" ").append(reason_phrase(status)).append("\r\n");
  }
  if (connection_.env.date && status >= 200) text += connection_.env.date->line();
  framing_ = Framing::kChunked;
  write_fields(response.fields, status, text);
  write_fields(extra_fields_, status, text);
  write_framing(status, text);
  text += "\r\n";
  connection_.output.append(text);
  base::SpareText::keep(std::move(text));
  wrote();
}

void H1Exchange::write_fields(const Fields& fields, int status, std::string& text) {
  for (size_t i = 0; i < fields.size(); ++i) {
    auto [name, value] = fields[i];
    if (is_about_connection(name)) continue;
    if (name == "content-length") {
      uint64_t n = 0;
      auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
      if (status < 200 || status == 204 || error != std::errc() || end != value.data() + value.size()) continue;
      framing_ = Framing::kLength;
      left_ = n;
    }
    append_field(text, name, value);
  }
}

void H1Exchange::write_framing(int status, std::string& text) {
  if (upgraded_) {  // RFC 9110 §7.8; the connection is not HTTP's any more, and ends with this Exchange
    framing_ = Framing::kUntilClose;
    close_ = true;
    text += "connection: upgrade\r\nupgrade: websocket\r\n";
    connection_.last = true;
    return;
  }
  if (bodiless(status)) {
    framing_ = Framing::kNone;
  } else if (framing_ == Framing::kChunked) {
    if (request_.version == Version::kHttp10)
      framing_ = Framing::kUntilClose;
    else
      text += "transfer-encoding: chunked\r\n";
  }
  if (status == 426 && extra_fields_.has("upgrade"))  // RFC 9110 §15.5.22
    text.append("connection: upgrade\r\nupgrade: ").append(extra_fields_.find("upgrade")).append("\r\n");
  close_ = closes_after();
  if (close_) {
    text += "connection: close\r\n";
    connection_.last = true;
  } else if (request_.version == Version::kHttp10) {
    text += "connection: keep-alive\r\n";
  }
}

void H1Exchange::write_body(base::Bytes piece) {
  Output& out = connection_.output;
  switch (framing_) {
    case Framing::kNone: return;
    case Framing::kLength:
      if (piece.size() > left_) piece = piece.slice(0, size_t(left_));
      left_ -= piece.size();
      out.append(std::move(piece));
      break;
    case Framing::kChunked:
      out.append(Digits(piece.size(), 16));
      out.append("\r\n");
      out.append(std::move(piece));
      out.append("\r\n");
      break;
    case Framing::kUntilClose: out.append(std::move(piece)); break;
  }
  wrote();
}

void H1Exchange::write_end(const Fields& trailers) {
  ended_ = true;
  if (framing_ == Framing::kChunked) {
    std::string text = base::SpareText::take();
    text = "0\r\n";
    // RFC 9110 §6.5.1: only for a client that says that it keeps them.
    for (size_t i = 0; te_trailers_ && i < trailers.size(); ++i)
      if (may_trail(trailers[i].name)) append_field(text, trailers[i].name, trailers[i].value);
    text += "\r\n";
    connection_.output.append(text);
    base::SpareText::keep(std::move(text));
  }
  // Less than was announced: only closing tells the client.
  if (framing_ == Framing::kLength && left_ > 0) cut_ = close_ = true;
  if (!read_whole_ && begun_ && queue_.reader().unread(*this) > kDiscardableUnread) close_ = true;
  if (close_) connection_.last = true;
  wrote();
}

void H1Exchange::wrote() {
  to_ = connection_.output.total();
  connection_.moved = now();
  connection_.notify_output();
}

}  // namespace weir::wire
