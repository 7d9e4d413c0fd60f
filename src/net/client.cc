#include "net/client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <system_error>

#include "net/address.h"
#include "net/fd.h"
#include "wire/text.h"

namespace weir::net {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;

// A connected socket with a deadline, and the bytes that have been read from it.
class Line {
 public:
  Line(Fd fd, base::Time deadline) : fd_(std::move(fd)), deadline_(deadline) {}

  static Result<Line> connect(const std::string& address, base::Time deadline);
  Status send(std::string_view text);
  // Reads until `input` has more. False at the end of the stream.
  Result<bool> more();

  std::string input;

 private:
  Status wait(short what);

  Fd fd_;
  base::Time deadline_;
};

Status Line::wait(short what) {
  for (;;) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now()).count();
    pollfd one{fd_.get(), what, 0};
    int n = left > 0 ? ::poll(&one, 1, int(std::min<int64_t>(left, 1 << 30))) : 0;
    if (n > 0) return {};
    if (n == 0 && left <= 0) return failure(Code::kDeadlineExceeded, "no answer in time");
  }
}

Result<Line> Line::connect(const std::string& address, base::Time deadline) {
  auto found = resolve(address);
  if (!found) return found.error();
  Status last = failure(Code::kUnavailable, "cannot connect to " + address);
  for (const auto& endpoint : *found) {
    Line line(Fd(::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), deadline);
    int error = 0;
    if (::connect(line.fd_.get(), reinterpret_cast<const sockaddr*>(&endpoint.storage), endpoint.size) != 0)
      error = errno;
    if (error == EINPROGRESS) {
      if (auto status = line.wait(POLLOUT); !status.ok()) return status;
      socklen_t size = sizeof error;
      ::getsockopt(line.fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) return line;
    last.text = "cannot connect to " + endpoint.text() + ": " + std::generic_category().message(error);
  }
  return last;
}

Status Line::send(std::string_view text) {
  while (!text.empty()) {
    ssize_t n = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      text.remove_prefix(size_t(n));
    } else if (errno == EAGAIN) {
      if (auto status = wait(POLLOUT); !status.ok()) return status;
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return {};  // the answer may be there already: an error, before the whole request was sent
    } else if (errno != EINTR) {
      return failure(Code::kUnavailable, "the connection broke: " + std::generic_category().message(errno));
    }
  }
  return {};
}

Result<bool> Line::more() {
  if (input.size() > Client::kLargestReply) return failure(Code::kResourceExhausted, "the answer is too large");
  for (;;) {
    char piece[64 << 10];
    ssize_t n = ::recv(fd_.get(), piece, sizeof piece, 0);
    if (n >= 0) {
      input.append(piece, size_t(n));
      return n > 0;
    }
    if (errno == EAGAIN) {
      if (auto status = wait(POLLIN); !status.ok()) return status;
    } else if (errno != EINTR) {
      return failure(Code::kUnavailable, "the connection broke: " + std::generic_category().message(errno));
    }
  }
}

Status not_http(const char* what) {
  return failure(Code::kInternal, std::string("the answer is not HTTP/1.1: ") + what);
}

// Takes all up to and with `end` off the input.
Result<std::string> take_until(Line& line, std::string_view end) {
  size_t at;
  while ((at = line.input.find(end)) == std::string::npos) {
    auto got = line.more();
    if (!got) return got.error();
    if (!*got) return failure(Code::kUnavailable, "the connection was closed before the answer was complete");
  }
  std::string out = line.input.substr(0, at);
  line.input.erase(0, at + end.size());
  return out;
}

Result<std::string> take(Line& line, size_t n) {
  if (n > Client::kLargestReply) return failure(Code::kResourceExhausted, "the answer is too large");
  while (line.input.size() < n) {
    auto got = line.more();
    if (!got) return got.error();
    if (!*got) return failure(Code::kUnavailable, "the connection was closed before the answer was complete");
  }
  std::string out = line.input.substr(0, n);
  line.input.erase(0, n);
  return out;
}

// "HTTP/1.1 200 OK" CRLF *( name ":" value CRLF ), without the empty line.
Result<Client::Reply> parse_head(std::string_view head) {
  Client::Reply reply;
  if (!head.starts_with("HTTP/1.") || head.size() < 12) return not_http("its status line");
  std::from_chars(head.data() + 9, head.data() + 12, reply.status);
  if (reply.status < 100) return not_http("its status");
  for (size_t at = head.find("\r\n"); at != std::string_view::npos;) {
    size_t end = head.find("\r\n", at + 2);
    auto line = head.substr(at + 2, end == std::string_view::npos ? end : end - at - 2);
    size_t colon = line.find(':');
    if (colon == std::string_view::npos) return not_http("a field without a colon");
    reply.fields.emplace_back(wire::lowered(line.substr(0, colon)), wire::trim(line.substr(colon + 1)));
    at = end;
  }
  return reply;
}

Result<std::string> chunked_body(Line& line) {
  std::string body;
  for (;;) {
    auto size_line = take_until(line, "\r\n");
    if (!size_line) return size_line.error();
    size_t size = 0;
    auto [end, error] = std::from_chars(size_line->data(), size_line->data() + size_line->size(), size, 16);
    if (error != std::errc()) return not_http("a chunk's size");
    if (size == 0) break;
    if (body.size() + size > Client::kLargestReply) return failure(Code::kResourceExhausted, "the answer is too large");
    auto piece = take(line, size);
    if (!piece) return piece.error();
    body += *piece;
    if (auto newline = take(line, 2); !newline) return newline.error();
  }
  for (;;) {  // trailers, then an empty line
    auto trailer = take_until(line, "\r\n");
    if (!trailer) return trailer.error();
    if (trailer->empty()) return body;
  }
}

Result<std::string> read_body(Line& line, const Client::Reply& reply, std::string_view method) {
  if (method == "HEAD" || reply.status == 204 || reply.status == 304) return std::string();
  if (wire::lowered(reply.find("transfer-encoding")) == "chunked") return chunked_body(line);
  if (auto text = reply.find("content-length"); !text.empty()) {
    size_t n = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc()) return not_http("its content-length");
    return take(line, n);
  }
  for (;;) {
    auto got = line.more();
    if (!got) return got.error();
    if (!*got) return std::move(line.input);
  }
}

}  // namespace

std::string_view Client::Reply::find(std::string_view name) const {
  auto at = std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.first == name; });
  return at == fields.end() ? std::string_view() : at->second;
}

Client::Client(std::string_view address, base::Duration timeout) : timeout_(timeout) {
  if (address.starts_with("http://")) address.remove_prefix(7);
  if (!address.starts_with("unix:") && address.ends_with('/')) address.remove_suffix(1);
  address_ = address;
}

Result<Client::Reply> Client::request(std::string_view method, std::string_view target, const HeaderList& fields,
                                      std::string_view body) const {
  auto line = Line::connect(address_, std::chrono::steady_clock::now() + timeout_);
  if (!line) return line.error();
  std::string text = std::string(method) + ' ' + std::string(target) +
                     " HTTP/1.1\r\nHost: " + (address_.starts_with("unix:") ? std::string("localhost") : address_) +
                     "\r\nConnection: close\r\n";
  for (const auto& [name, value] : fields) text += name + ": " + value + "\r\n";
  if (!body.empty() || method == "POST" || method == "PUT")
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  text += "\r\n";
  text += body;
  if (auto status = line->send(text); !status.ok()) return status;
  for (;;) {
    auto head = take_until(*line, "\r\n\r\n");
    if (!head) return head.error();
    auto reply = parse_head(*head);
    if (!reply) return reply.error();
    if (reply->status < 200 && reply->status != 101) continue;
    auto content = read_body(*line, *reply, method);
    if (!content) return content.error();
    reply->body = std::move(*content);
    return reply;
  }
}

}  // namespace weir::net
