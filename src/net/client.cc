#include "net/client.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "wire/text.h"

namespace weir::net {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;

constexpr uint64_t kOverhead = 8;  // heads, chunks and trailers may be so many times the body

Status not_http(const char* what) {
  return failure(Code::kInternal, std::string("the answer is not HTTP/1.1: ") + what);
}

// Takes all up to and with `end` off the input.
Result<std::string> take_until(BlockingStream& line, std::string_view end) {
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

Result<std::string> take(BlockingStream& line, size_t n, uint64_t most) {
  if (n > most) return failure(Code::kResourceExhausted, "the answer is too large");
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

Result<std::string> chunked_body(BlockingStream& line, uint64_t most) {
  std::string body;
  for (;;) {
    auto size_line = take_until(line, "\r\n");
    if (!size_line) return size_line.error();
    size_t size = 0;
    auto [end, error] = std::from_chars(size_line->data(), size_line->data() + size_line->size(), size, 16);
    if (error != std::errc()) return not_http("a chunk's size");
    if (size == 0) break;
    if (size > most || body.size() + size > most) return failure(Code::kResourceExhausted, "the answer is too large");
    auto piece = take(line, size, most);
    if (!piece) return piece.error();
    body += *piece;
    if (auto newline = take(line, 2, most); !newline) return newline.error();
  }
  for (;;) {  // trailers, then an empty line
    auto trailer = take_until(line, "\r\n");
    if (!trailer) return trailer.error();
    if (trailer->empty()) return body;
  }
}

Result<std::string> read_body(BlockingStream& line, const Client::Reply& reply, std::string_view method,
                              uint64_t most) {
  if (method == "HEAD" || reply.status == 204 || reply.status == 304) return std::string();
  if (wire::lowered(reply.find("transfer-encoding")) == "chunked") return chunked_body(line, most);
  if (auto text = reply.find("content-length"); !text.empty()) {
    size_t n = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc()) return not_http("its content-length");
    return take(line, n, most);
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

Client::Client(std::string_view address, base::Duration timeout) : Client(address, Options{.timeout = timeout}) {}

Client::Client(std::string_view address, Options options) : options_(std::move(options)) {
  if (address.starts_with("http://")) address.remove_prefix(7);
  if (!address.starts_with("unix:") && address.ends_with('/')) address.remove_suffix(1);
  address_ = address;
}

std::string Client::head_of(std::string_view method, std::string_view target, const HeaderList& fields,
                            std::string_view body) const {
  std::string text = std::string(method) + ' ' + std::string(target) +
                     " HTTP/1.1\r\nHost: " + (address_.starts_with("unix:") ? std::string("localhost") : address_) +
                     "\r\nConnection: close\r\n";
  for (const auto& [name, value] : fields) text += name + ": " + value + "\r\n";
  if (!body.empty() || method == "POST" || method == "PUT")
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text += "\r\n";
}

Result<Client::Reply> Client::request(std::string_view method, std::string_view target, const HeaderList& fields,
                                      std::string_view body) const {
  BlockingStream::Options way;
  way.deadline = std::chrono::steady_clock::now() + options_.timeout;
  way.most = kOverhead * options_.largest_reply;
  way.tls = options_.tls, way.host = options_.tls_host;
  way.interrupt = options_.interrupt;
  auto stream = BlockingStream::connect(address_, std::move(way));
  if (!stream) return stream.error();
  std::string text = head_of(method, target, fields, body);
  if (auto status = stream->send(text += body); !status.ok()) return status;
  for (;;) {
    auto head = take_until(*stream, "\r\n\r\n");
    if (!head) return head.error();
    auto reply = parse_head(*head);
    if (!reply) return reply.error();
    if (reply->status < 200 && reply->status != 101) continue;
    auto content = read_body(*stream, *reply, method, options_.largest_reply);
    if (!content) return content.error();
    reply->body = std::move(*content);
    return reply;
  }
}

}  // namespace weir::net
