#include "net/readiness.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace weir::net {
namespace {

constexpr uint32_t kReading = EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLET;

int open_set() {
  int fd = ::epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  return fd;
}

}  // namespace

Readiness::Readiness(boost::asio::io_context& io) : set_(io, open_set()) {}

bool Readiness::add(int fd, Watcher& watcher) {
  epoll_event event{kReading, {.ptr = &watcher}};
  return ::epoll_ctl(set_.native_handle(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Readiness::add_writing(int fd, Watcher& watcher) {
  epoll_event event{kReading | EPOLLOUT, {.ptr = &watcher}};
  ::epoll_ctl(set_.native_handle(), EPOLL_CTL_MOD, fd, &event);
}

void Readiness::remove(int fd, Watcher& watcher) {
  epoll_event none{};
  ::epoll_ctl(set_.native_handle(), EPOLL_CTL_DEL, fd, &none);
  queue_.remove(watcher);
}

// The loop tells of the set once, and again as soon as it is asked again while something is left in it.
void Readiness::arm() {
  if (armed_) return;
  set_.async_wait(boost::asio::posix::descriptor_base::wait_read, [this](const boost::system::error_code& error) {
    armed_ = false;
    if (!error) stirred_ = true;
  });
  armed_ = true;
}

bool Readiness::look() {
  if (several_) fetch();
  return !queue_.empty();
}

// Fetches all events, so that a client with few requests is not behind a thousand others in the kernel's list. kMost
// bounds the loop if events come as fast as they are fetched.
void Readiness::fetch() {
  constexpr int kMost = 64;
  int found = 0;
  for (int i = 0; i < kMost; ++i) {
    const int n = ::epoll_wait(set_.native_handle(), events_.data(), int(events_.size()), 0);
    for (int at = 0; at < n; ++at) {
      auto& watcher = *static_cast<Watcher*>(events_[size_t(at)].data.ptr);
      watcher.events_ |= events_[size_t(at)].events;
      again(watcher);
    }
    found += std::max(n, 0);
    if (n == int(events_.size())) continue;
    stirred_ = false;
    break;
  }
  several_ = found > 1;
}

bool Readiness::next() {
  if (stirred_) fetch();
  Watcher* watcher = queue_.pop();
  if (!watcher) return false;
  watcher->ready(std::exchange(watcher->events_, 0));
  return true;
}

}  // namespace weir::net
