#include "net/signals.h"

#include <unistd.h>

#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <utility>

#include "net/shard_parts.h"

namespace weir::net {

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
}

Signals::~Signals() = default;

void end_at_next_signal() {
  const auto end = +[](int signal) { ::_exit(128 + signal); };
  std::signal(SIGTERM, end), std::signal(SIGINT, end);
}

}  // namespace weir::net
