#include "engines/process/received.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weir::process {

std::optional<Received> receive_message(int socket) {
  Received out;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  iovec io{&out.message, sizeof out.message};
  msghdr header{};
  header.msg_iov = &io, header.msg_iovlen = 1, header.msg_control = control, header.msg_controllen = sizeof control;
  ssize_t n;
  do n = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  const cmsghdr* part = n >= 0 ? CMSG_FIRSTHDR(&header) : nullptr;
  if (part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
    std::memcpy(&out.region, CMSG_DATA(part), sizeof out.region);
  const bool is_region = out.message.type == Type::kInputRegion || out.message.type == Type::kOutputRegion;
  if (n == ssize_t(sizeof out.message) && is_region == (out.region >= 0)) return out;
  if (out.region >= 0) ::close(out.region);
  return {};
}

}  // namespace weir::process
