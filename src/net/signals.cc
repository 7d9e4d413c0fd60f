#include "net/signals.h"

#include <unistd.h>

#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <iterator>
#include <utility>

#include "net/shard_parts.h"

namespace weir::net {
namespace {

constexpr int kAsking[] = {SIGHUP, SIGUSR1};  // signals that ask for something, and end nothing

volatile std::sig_atomic_t held[std::size(kAsking)]{};

void hold(int signal) { held[signal == kAsking[0] ? 0 : 1] = 1; }

}  // namespace

struct Signals::Parts {
  Parts(Shard& shard, std::function<void(int)> call)
      : set(shard.parts().io, SIGTERM, SIGINT, SIGHUP), on_signal(std::move(call)) {
    set.add(SIGUSR1);
  }
  void wait() {
    set.async_wait([this](const boost::system::error_code& error, int signal) {
      if (error) return;  // destroyed
      wait();
      on_signal(signal);
    });
  }

  asio::basic_signal_set<Executor> set;
  std::function<void(int)> on_signal;
};

Signals::Signals(Shard& shard, std::function<void(int)> on_signal)
    : parts_(std::make_unique<Parts>(shard, std::move(on_signal))) {
  std::signal(SIGPIPE, SIG_IGN);
  parts_->wait();
  for (size_t i = 0; i < std::size(kAsking); ++i) {
    if (held[i] == 0) continue;
    held[i] = 0;
    shard.post([parts = parts_.get(), signal = kAsking[i]] { parts->on_signal(signal); });
  }
}

Signals::~Signals() {
  parts_.reset();
  hold_signals();
}

void hold_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  for (int signal : kAsking) std::signal(signal, hold);
}

void end_at_next_signal() {
  const auto end = +[](int signal) { ::_exit(128 + signal); };
  std::signal(SIGTERM, end), std::signal(SIGINT, end);
}

}  // namespace weir::net
