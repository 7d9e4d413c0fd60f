#include "app/service_notifier.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace weir::app {
namespace {

// A service manager's socket, and what was sent to it.
class ServiceSocket {
 public:
  explicit ServiceSocket(const std::string& address) : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path, address.data(), address.size());
    if (address[0] == '@') at.sun_path[0] = '\0';
    bound_ = ::bind(fd_.get(), reinterpret_cast<sockaddr*>(&at),
                    socklen_t(offsetof(sockaddr_un, sun_path) + address.size())) == 0;
  }
  bool bound() const { return bound_; }

  // The next message; its descriptors are added to `fds`. Empty: there is none.
  std::string next() {
    std::string text(4096, '\0');
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 253)];
    iovec piece{text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &piece, message.msg_iovlen = 1;
    message.msg_control = control, message.msg_controllen = sizeof control;
    ssize_t n = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) return {};
    for (auto* head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
      size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      std::vector<int> got(count);
      std::memcpy(got.data(), CMSG_DATA(head), count * sizeof(int));
      for (int fd : got) fds.emplace_back(fd);
    }
    return text.substr(0, size_t(n));
  }

  std::vector<net::Fd> fds;

 private:
  net::Fd fd_;
  bool bound_ = false;
};

std::string own_name(const char* what) { return std::string("weir-") + what + '-' + std::to_string(::getpid()); }

TEST(ServiceNotifier, SaysNothingWhereNobodyAsks) {
  EXPECT_FALSE(ServiceNotifier(nullptr).on());
  EXPECT_FALSE(ServiceNotifier("").on());
  EXPECT_FALSE(ServiceNotifier("vsock:2:1234").on());
  EXPECT_FALSE(ServiceNotifier("@").on());
  EXPECT_FALSE(ServiceNotifier(("/" + std::string(200, 'x')).c_str()).on());
  ServiceNotifier(nullptr).ready("x");  // and does not mind to be told
}

TEST(ServiceNotifier, SpeaksToAPathAndToAnAbstractName) {
  for (const std::string& address :
       {(std::filesystem::temp_directory_path() / own_name("notify")).string(), '@' + own_name("notify")}) {
    ServiceSocket manager(address);
    ASSERT_TRUE(manager.bound()) << address;
    ServiceNotifier notifier(address.c_str());
    ASSERT_TRUE(notifier.on());
    notifier.status("models are loading");
    notifier.ready("3 of 3\nmodels are ready");
    notifier.alive();
    notifier.stopping("waiting");
    EXPECT_EQ(manager.next(), "STATUS=models are loading");
    EXPECT_EQ(manager.next(), "READY=1\nSTATUS=3 of 3 models are ready");
    EXPECT_EQ(manager.next(), "WATCHDOG=1");
    EXPECT_EQ(manager.next(), "STOPPING=1\nSTATUS=waiting");
    EXPECT_EQ(manager.next(), "");
    if (address[0] == '/') std::filesystem::remove(address);
  }
}

TEST(ServiceNotifier, AReloadIsToldWithItsTime) {
  ServiceSocket manager('@' + own_name("reload"));
  ServiceNotifier(('@' + own_name("reload")).c_str()).reloading();
  EXPECT_TRUE(manager.next().starts_with("RELOADING=1\nMONOTONIC_USEC="));
}

TEST(ServiceNotifier, SocketsAreKeptInMessagesThatTheKernelTakes) {
  ServiceSocket manager('@' + own_name("keep"));
  net::Fd one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ServiceNotifier(('@' + own_name("keep")).c_str()).keep(std::vector<int>(450, one.get()));
  for (size_t expected : {200u, 400u, 450u}) {
    EXPECT_EQ(manager.next(), "FDSTORE=1\nFDNAME=listen");
    EXPECT_EQ(manager.fds.size(), expected);
  }
  struct stat ours {
  }, theirs{};
  ASSERT_EQ(::fstat(one.get(), &ours), 0);
  ASSERT_EQ(::fstat(manager.fds.back().get(), &theirs), 0);
  EXPECT_EQ(ours.st_ino, theirs.st_ino);
}

TEST(ServiceNotifier, AManagerThatIsGoneIsNoHarm) {
  ServiceNotifier notifier(('@' + own_name("gone")).c_str());
  notifier.ready("nobody hears");
  notifier.alive();
}

}  // namespace
}  // namespace weir::app
