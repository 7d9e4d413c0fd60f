#include "net/listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/attempt.h"
#include "base/log.h"
#include "net/address.h"

namespace weir::net {
namespace {

constexpr base::Duration kFirstPause = std::chrono::milliseconds(100), kLongestPause = std::chrono::seconds(1);
constexpr int kLastBursts = 64;  // with kAcceptsPerTurn: a whole backlog

Fd open_spare() { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

bool out_of_descriptors(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace

Listener::Listener(Shard::Parts& shard, Fd fd, Transport transport, Deliver deliver, base::Counter& starved,
                   base::MemoryLedger* memory)
    : shard_(shard),
      fd_(shard.io, fd.release()),
      transport_(transport),
      deliver_(std::move(deliver)),
      starved_(starved),
      memory_(memory),
      spare_(open_spare()) {
  epoll_event event{EPOLLIN, {.fd = fd_.native_handle()}};  // it waits by itself: this is for threads that compute
  (void)::epoll_ctl(shard_.listeners.get(), EPOLL_CTL_ADD, fd_.native_handle(), &event);
}

void Listener::begin() {
  fd_.async_wait(asio::posix::descriptor_base::wait_read, [this](const boost::system::error_code& error) {
    waiting_ = false;
    if (!error && fd_.is_open()) on_ready();
  });
  waiting_ = true;
}

// Called by the loop, by a timer or at the end of a turn, none of which would call it again: whatever throws here
// (there is no memory for a connection, or to wait with) must not leave a listener that waits for nothing.
void Listener::on_ready() {
  if (base::attempt("a listener", [this] { accept_and_wait(); }).ok() || waits()) return;
  (void)base::attempt("a listener", [this] { pause_for(kFirstPause); });
  if (waits()) return;
  shard_.mark_for_next_turn(*this);
  marked_ = true;
}

void Listener::flush() {
  marked_ = false;
  if (fd_.is_open()) on_ready();
}

void Listener::accept_and_wait() {
  shard_.now();
  switch (accept_burst()) {
    case Burst::kStarved: return pause();
    case Burst::kShort: return pause_for(kFirstPause);
    case Burst::kEmptied:
    case Burst::kMore: break;
  }
  delay_ = {};
  begin();
}

Listener::Burst Listener::accept_burst() {
  auto goes_on = [this](int accepted) {
    return accepted < kAcceptsPerTurn || (accepted < kMostPerTurn && !shard_.turn_is_long());
  };
  for (int i = 0; goes_on(i); ++i) {
    Endpoint peer;
    peer.size = sizeof peer.storage;
    Fd fd(::accept4(fd_.native_handle(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.size,
                    SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      auto network = peer.loopback() ? wire::Network::kLoopback : wire::Network::kOther;
      deliver_({std::move(fd), transport_ == Transport::kUnix ? "unix" : peer.text(), transport_, network});
      if (memory_ && memory_->update_overload() >= base::Overload::kStop) return Burst::kShort;
      continue;
    }
    if (errno == EAGAIN) return Burst::kEmptied;
    if (out_of_descriptors(errno)) {
      return turn_one_away() ? Burst::kStarved : Burst::kEmptied;
    }
    // Other errors of accept(2) belong to the connection that did not come to be (ECONNABORTED, EPROTO, …).
  }
  return Burst::kMore;
}

// Accepts a waiting connection with the spare descriptor, and closes it. False: none waits. (Without a descriptor
// accept(2) does not tell whether one waits.)
bool Listener::turn_one_away() {
  spare_.reset();
  Fd one(::accept4(fd_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC));
  bool nobody = !one && errno == EAGAIN;
  one.reset();
  spare_ = open_spare();
  if (nobody) return false;
  starved_.add();
  return true;
}

void Listener::pause() {
  delay_ = delay_ == base::Duration{} ? kFirstPause : std::min(2 * delay_, kLongestPause);
  base::log::warning("out of file descriptors: accepting pauses",
                     {{"ms", std::chrono::duration_cast<std::chrono::milliseconds>(delay_).count()}});
  pause_for(delay_);
}

void Listener::pause_for(base::Duration delay) {
  timer_ = shard_.at(shard_.now() + delay, [this] {
    timer_ = base::TimerId::kNone;
    on_ready();
  });
}

void Listener::stop() {
  if (!fd_.is_open()) return;
  shard_.cancel(std::exchange(timer_, base::TimerId::kNone));
  memory_ = nullptr;
  for (int burst = 0; burst < kLastBursts && accept_burst() == Burst::kMore; ++burst) {
  }
  boost::system::error_code ignored;
  fd_.close(ignored);
  spare_.reset();
}

}  // namespace weir::net
