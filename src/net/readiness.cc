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

Readiness::Readiness(boost::asio::io_context& io) : set_(io, open_set()) { arm(); }

bool Readiness::add(int fd, Watcher& watcher) {
  epoll_event event{kReading, {.ptr = &watcher}};
  return ::epoll_ctl(set_.native_handle(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Readiness::add_writing(int fd, Watcher& watcher) {
  epoll_event event{kReading | EPOLLOUT, {.ptr = &watcher}};
  ::epoll_ctl(set_.native_handle(), EPOLL_CTL_MOD, fd, &event);
}

void Readiness::remove(Watcher& watcher) {
  for (size_t i = at_; i < count_; ++i)
    if (events_[i].data.ptr == &watcher) events_[i].data.ptr = nullptr;
  if (std::exchange(watcher.waits_, false)) std::erase(again_, &watcher);
}

void Readiness::again(Watcher& watcher) {
  if (!std::exchange(watcher.waits_, true)) again_.push_back(&watcher);
}

// The loop tells of the set once, and again as soon as it is asked again while something is left in it.
void Readiness::arm() {
  set_.async_wait(boost::asio::posix::descriptor_base::wait_read, [this](const boost::system::error_code& error) {
    if (!error) stirred_ = true;
  });
}

void Readiness::fetch() {
  int n = ::epoll_wait(set_.native_handle(), events_.data(), int(events_.size()), 0);
  at_ = 0;
  count_ = size_t(std::max(n, 0));
  if (count_ == events_.size()) return;
  arm();
  stirred_ = false;  // where arm() threw, the next turn asks again
}

bool Readiness::next() {
  for (;;) {
    if (at_ == count_ && stirred_) fetch();
    // Both are lines of their own; a busy one would keep the other waiting.
    if (at_ != count_ && (again_.empty() || std::exchange(kernels_turn_, false))) {
      epoll_event event = events_[at_++];
      if (!event.data.ptr) continue;
      static_cast<Watcher*>(event.data.ptr)->ready(event.events);
      return true;
    }
    if (again_.empty()) return false;
    Watcher* watcher = again_.front();
    again_.pop_front();
    watcher->waits_ = false;
    kernels_turn_ = true;
    watcher->ready(0);
    return true;
  }
}

}  // namespace weir::net
