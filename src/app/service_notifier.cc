#include "app/service_notifier.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <vector>

#include "base/log.h"

namespace weir::app {
namespace {

constexpr size_t kSocketsPerMessage = 200;  // the kernel takes 253

// A status is one line.
std::string status_line(std::string_view status) {
  std::string line = "STATUS=" + std::string(status);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

// Microseconds of the clock that the manager compares with its own.
std::string monotonic_microseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::to_string(uint64_t(now.tv_sec) * 1'000'000 + uint64_t(now.tv_nsec) / 1000);
}

}  // namespace

ServiceNotifier::ServiceNotifier(const char* address) {
  const std::string_view text = address ? address : "";
  if (text.empty()) return;
  if ((text[0] != '/' && text[0] != '@') || text.size() < 2 || text.size() >= sizeof address_.sun_path) {
    base::log::warning("NOTIFY_SOCKET is neither a path nor @name: the service manager is told nothing",
                       {{"NOTIFY_SOCKET", text}});
    return;
  }
  address_.sun_family = AF_UNIX;
  std::memcpy(address_.sun_path, text.data(), text.size());
  size_ = socklen_t(offsetof(sockaddr_un, sun_path) + text.size());
  if (text[0] == '@') address_.sun_path[0] = '\0';  // such a name has no end but its size
  socket_ = net::Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

void ServiceNotifier::ready(std::string_view status) const { send("READY=1\n" + status_line(status), Wait::kYes); }

void ServiceNotifier::reloading() const {
  send("RELOADING=1\nMONOTONIC_USEC=" + monotonic_microseconds() + "\nSTATUS=reloading", Wait::kNo);
}

void ServiceNotifier::stopping(std::string_view status) const { send("STOPPING=1\n" + status_line(status), Wait::kNo); }

void ServiceNotifier::status(std::string_view status) const { send(status_line(status), Wait::kNo); }

void ServiceNotifier::alive() const { send("WATCHDOG=1", Wait::kNo); }

void ServiceNotifier::keep(std::span<const int> sockets) const {
  while (!sockets.empty()) {
    const size_t count = std::min(sockets.size(), kSocketsPerMessage);
    send("FDSTORE=1\nFDNAME=listen", Wait::kYes, sockets.first(count));
    sockets = sockets.subspan(count);
  }
}

void ServiceNotifier::send(std::string_view lines, Wait wait, std::span<const int> fds) const {
  if (!on()) return;
  iovec text{const_cast<char*>(lines.data()), lines.size()};
  msghdr message{};
  message.msg_name = const_cast<sockaddr_un*>(&address_);
  message.msg_namelen = size_;
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  std::vector<std::byte> control(fds.empty() ? 0 : CMSG_SPACE(fds.size_bytes()));
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
  }
  const int flags = MSG_NOSIGNAL | (wait == Wait::kNo ? MSG_DONTWAIT : 0);
  if (::sendmsg(socket_.get(), &message, flags) < 0)
    base::log::warning("the service manager cannot be told", {{"lines", lines}, {"reason", std::strerror(errno)}});
}

}  // namespace weir::app
