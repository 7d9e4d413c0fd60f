#include "net/client.h"

#include <algorithm>
#include <chrono>

#include "wire/h1_response.h"

namespace weir::net {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;

constexpr uint64_t kOverhead = 8;  // heads, chunks and trailers may be so many times the body

}  // namespace

// Takes one answer: whole, or piece by piece.
class Client::Answer final : public wire::ResponseListener {
 public:
  explicit Answer(uint64_t largest, const OnPiece* on_piece = nullptr) : largest_(largest), on_piece_(on_piece) {}

  Status on_head(int status, const wire::Fields& fields) override {
    reply.status = status;
    for (size_t i = 0; i < fields.size(); ++i) reply.fields.emplace_back(fields[i].name, fields[i].value);
    return {};
  }
  Status on_body(std::string_view piece) override {
    if (on_piece_ && reply.status < 300) {
      if (wanted) wanted = (*on_piece_)(piece);
      return {};
    }
    if (reply.body.size() + piece.size() > largest_)
      return failure(Code::kResourceExhausted, "the answer is too large");
    reply.body += piece;
    return {};
  }
  bool in_pieces() const { return on_piece_ != nullptr; }

  Reply reply;
  bool wanted = true;

 private:
  const uint64_t largest_;
  const OnPiece* const on_piece_;
};

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

Result<BlockingStream> Client::send(std::string_view method, std::string_view target, const HeaderList& fields,
                                    std::string_view body, uint64_t most) const {
  BlockingStream::Options way;
  way.deadline = std::chrono::steady_clock::now() + options_.timeout;
  way.most = most;
  way.tls = options_.tls, way.host = options_.tls_host;
  way.interrupt = options_.interrupt;
  auto stream = BlockingStream::connect(address_, std::move(way));
  if (!stream) return stream;
  std::string text = std::string(method) + ' ' + std::string(target) +
                     " HTTP/1.1\r\nHost: " + (address_.starts_with("unix:") ? std::string("localhost") : address_) +
                     "\r\nConnection: close\r\n";
  for (const auto* list : {&options_.fields, &fields})
    for (const auto& [name, value] : *list) text += name + ": " + value + "\r\n";
  if (!body.empty() || method == "POST" || method == "PUT")
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  text += "\r\n";
  if (auto status = stream->send(text += body); !status.ok()) return status;
  return stream;
}

Result<Client::Reply> Client::receive(BlockingStream& stream, std::string_view method, Answer& answer) const {
  wire::H1Response parser;
  parser.begin(method == "HEAD" ? wire::H1Response::Body::kNone : wire::H1Response::Body::kAsFramed);
  while (!parser.done() && answer.wanted) {
    auto got = stream.more();
    if (!got) return got.error();
    std::string_view input = stream.input;
    Status status = *got ? parser.feed(input, answer) : parser.end();
    stream.input.clear();
    if (!*got && !status.ok())
      return failure(Code::kUnavailable, "the connection was closed before the answer was complete");
    if (status.code == Code::kUnavailable) return failure(Code::kInternal, "the answer is " + status.text);
    if (!status.ok()) return status;
    if (answer.in_pieces() && answer.reply.status != 0)
      stream.end_at(std::chrono::steady_clock::now() + options_.timeout);
  }
  return std::move(answer.reply);
}

Result<Client::Reply> Client::request(std::string_view method, std::string_view target, const HeaderList& fields,
                                      std::string_view body) const {
  auto stream = send(method, target, fields, body, kOverhead * options_.largest_reply);
  if (!stream) return stream.error();
  Answer answer(options_.largest_reply);
  return receive(*stream, method, answer);
}

Result<Client::Reply> Client::stream(std::string_view method, std::string_view target, const HeaderList& fields,
                                     std::string_view body, const OnPiece& on_piece) const {
  auto stream = send(method, target, fields, body, UINT64_MAX);
  if (!stream) return stream.error();
  Answer answer(options_.largest_reply, &on_piece);
  return receive(*stream, method, answer);
}

}  // namespace weir::net
