#include "net/blocking_stream.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "net/address.h"

namespace weir::net {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;

constexpr size_t kPiece = 64 << 10;

std::string words(int error) { return std::generic_category().message(error); }

Status connection_broke(int error) { return failure(Code::kUnavailable, "the connection broke: " + words(error)); }

}  // namespace

Interrupt::Interrupt() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Interrupt::raise() {
  const uint64_t one = 1;
  while (::write(event_.get(), &one, sizeof one) < 0 && errno == EINTR) continue;
}

Status BlockingStream::wait(short what) {
  for (;;) {
    auto left =
        std::chrono::ceil<std::chrono::milliseconds>(options_.deadline - std::chrono::steady_clock::now()).count();
    pollfd both[2] = {{fd_.get(), what, 0}, {options_.interrupt ? options_.interrupt->descriptor() : -1, POLLIN, 0}};
    int n = left > 0 ? ::poll(both, 2, int(std::min<int64_t>(left, 1 << 30))) : 0;
    if (n > 0 && both[1].revents != 0) return failure(Code::kCancelled, "the request was broken off");
    if (n > 0) return {};
    if (n == 0 && left <= 0) return failure(Code::kDeadlineExceeded, "no answer in time");
  }
}

Result<BlockingStream> BlockingStream::connect(const std::string& address, Options options) {
  auto found = resolve(address);
  if (!found) return found.error();
  Status last = failure(Code::kUnavailable, "cannot connect to " + address);
  for (const auto& endpoint : *found) {
    BlockingStream stream(Fd(::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
                          options);
    int error = 0;
    if (::connect(stream.fd_.get(), reinterpret_cast<const sockaddr*>(&endpoint.storage), endpoint.size) != 0)
      error = errno;
    if (error == EINPROGRESS) {
      if (auto status = stream.wait(POLLOUT); !status.ok()) return status;
      socklen_t size = sizeof error;
      ::getsockopt(stream.fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) {
      if (auto status = stream.shake_hands(); !status.ok()) return status;
      return stream;
    }
    last.text = "cannot connect to " + endpoint.text() + ": " + words(error);
  }
  return last;
}

Status BlockingStream::shake_hands() {
  if (!options_.tls) return {};
  tls_ = std::make_unique<TlsSession>(*options_.tls, options_.host, TlsSession::Memory{});
  if (auto status = open_records({}); !status.ok()) return status;
  while (tls_->state() == TlsSession::State::kHandshake) {
    if (auto status = send_sealed(); !status.ok()) return status;
    auto got = more();
    if (!got) return got.error();
    if (!*got && tls_->state() == TlsSession::State::kHandshake)
      return failure(Code::kUnavailable, "the connection was closed during the TLS handshake");
  }
  return send_sealed();
}

Status BlockingStream::send_raw(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes.remove_prefix(size_t(n));
    } else if (errno == EAGAIN) {
      if (auto status = wait(POLLOUT); !status.ok()) return status;
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return {};  // the answer may be there already: an error, before the whole request was sent
    } else if (errno != EINTR) {
      return connection_broke(errno);
    }
  }
  return {};
}

Status BlockingStream::send_sealed() {
  auto bytes = tls_->output();
  Status status = send_raw({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  tls_->consumed(bytes.size());
  return status;
}

Status BlockingStream::send(std::string_view text) {
  if (!tls_) return send_raw(text);
  while (!text.empty()) {
    iovec piece{const_cast<char*>(text.data()), text.size()};
    const size_t n = tls_->seal({&piece, 1});
    if (n == 0) return failure(Code::kUnavailable, "TLS failed: " + tls_->error());
    text.remove_prefix(n);
    if (auto status = send_sealed(); !status.ok()) return status;
  }
  return {};
}

Result<size_t> BlockingStream::receive(char* into, size_t room) {
  for (;;) {
    ssize_t n = ::recv(fd_.get(), into, room, 0);
    if (n >= 0) return size_t(n);
    if (errno == EAGAIN) {
      if (auto status = wait(POLLIN); !status.ok()) return status;
    } else if (errno != EINTR) {
      return connection_broke(errno);
    }
  }
}

// Opens these bytes by TLS, and puts what is in them behind `input`.
Status BlockingStream::open_records(std::string_view bytes) {
  char plain[16 << 10];
  tls_->feed(std::as_bytes(std::span(bytes)));
  for (;;) {
    const size_t n = tls_->open(std::as_writable_bytes(std::span(plain)), std::chrono::steady_clock::now());
    if (tls_->state() == TlsSession::State::kFailed) {
      (void)send_sealed();  // the alert
      return failure(Code::kUnavailable, "TLS failed: " + tls_->error());
    }
    if (n == 0) return {};
    input.append(plain, n);
  }
}

// A record may hold nothing but TLS' own messages: then `input` has not grown, and the next one is waited for.
Result<bool> BlockingStream::more() {
  const size_t before = input.size();
  std::string piece(kPiece, 0);
  for (;;) {
    if (tls_ && tls_->state() == TlsSession::State::kPeerClosed) return false;
    auto n = receive(piece.data(), piece.size());
    if (!n) return n.error();
    if (*n == 0) return false;
    if ((received_ += *n) > options_.most) return failure(Code::kResourceExhausted, "the answer is too large");
    if (!tls_) {
      input.append(piece, 0, *n);
      return true;
    }
    const bool shaking = tls_->state() == TlsSession::State::kHandshake;
    if (auto status = open_records({piece.data(), *n}); !status.ok()) return status;
    if (shaking || input.size() > before) return true;
  }
}

}  // namespace weir::net
