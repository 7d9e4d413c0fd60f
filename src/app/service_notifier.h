// ServiceNotifier: tells the service manager (systemd) how the server does, in the protocol of sd_notify(3): datagrams
// of NAME=VALUE lines to the unix socket that $NOTIFY_SOCKET names.
//
// Any thread. Only ready() waits for room in the manager's queue; what else finds none is lost.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <span>
#include <string>
#include <string_view>

#include "net/fd.h"

namespace weir::app {

class ServiceNotifier {
 public:
  // `address` is the value of NOTIFY_SOCKET: a path, or "@name" in the abstract namespace. Null or empty: nobody is
  // told anything. An address of another form is told in the log, and then as none.
  explicit ServiceNotifier(const char* address);

  // Whether a service manager listens.
  bool on() const { return bool(socket_); }

  // Start-up is over, or reloading is. `status` is a line for a person, as for the others.
  void ready(std::string_view status) const;
  void reloading() const;
  void stopping(std::string_view status) const;
  void status(std::string_view status) const;
  void alive() const;  // the watchdog's ping
  // Asks the manager to keep copies of these sockets and to hand them to the next process of this service
  // (FileDescriptorStoreMax= in its unit; a manager that keeps none closes them). Those that it has are not kept twice.
  void keep(std::span<const int> sockets) const;

 private:
  enum class Wait : bool { kNo, kYes };
  void send(std::string_view lines, Wait wait, std::span<const int> fds = {}) const;

  sockaddr_un address_{};
  socklen_t size_ = 0;
  net::Fd socket_;
};

}  // namespace weir::app
