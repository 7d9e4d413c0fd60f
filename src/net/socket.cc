#include "net/socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace weir::net {

Socket::Socket(Shard::Parts& shard, Fd fd, Owner& owner) : fd_(shard.io, fd.release()), owner_(owner) {}

// The handler names this Socket: its owner keeps it until at_rest().
template <class Done>
void Socket::wait(asio::posix::descriptor_base::wait_type what, Done done) {
  ++waits_;
  fd_.async_wait(what, [this, done](const boost::system::error_code& error) {
    --waits_;
    if (!error && open()) done();
  });
}

void Socket::await_read() {
  if (reading_) return;
  reading_ = true;
  wait(asio::posix::descriptor_base::wait_read, [this] {
    reading_ = false;
    owner_.on_readable();
  });
}

void Socket::await_write() {
  if (writing_) return;
  writing_ = true;
  wait(asio::posix::descriptor_base::wait_write, [this] {
    writing_ = false;
    owner_.on_writable();
  });
}

void Socket::await_error() {
  if (erring_) return;
  erring_ = true;
  wait(asio::posix::descriptor_base::wait_error, [this] {
    erring_ = false;
    // Urgent data wakes this up too. Then the next await_error() waits on.
    pollfd now{fd_.native_handle(), 0, 0};
    if (::poll(&now, 1, 0) > 0 && (now.revents & (POLLERR | POLLHUP))) owner_.on_broken();
  });
}

Socket::Moved Socket::read(std::span<std::byte> into) {
  for (;;) {
    ssize_t n = ::recv(fd_.native_handle(), into.data(), into.size(), 0);
    if (n > 0) return {Fate::kSome, size_t(n)};
    if (n == 0) return {Fate::kEof};
    if (errno == EAGAIN) return {Fate::kNone};
    if (errno != EINTR) return {Fate::kError, 0, errno};
  }
}

Socket::Moved Socket::write(std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  for (;;) {
    ssize_t n = ::sendmsg(fd_.native_handle(), &message, MSG_NOSIGNAL);
    if (n >= 0) return {Fate::kSome, size_t(n)};
    if (errno == EAGAIN) return {Fate::kNone};
    if (errno != EINTR) return {Fate::kError, 0, errno};
  }
}

void Socket::shut_write() { ::shutdown(fd_.native_handle(), SHUT_WR); }

void Socket::close() {
  boost::system::error_code ignored;
  fd_.close(ignored);
}

void Socket::abort() {
  linger now{1, 0};
  ::setsockopt(fd_.native_handle(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

}  // namespace weir::net
