// A nats-server of a test's own, with JetStream in a folder that goes with it.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace weir {

class NatsServer {
 public:
  NatsServer() {
    std::string name = (std::filesystem::temp_directory_path() / "weir-nats-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~NatsServer() {
    kill();
    std::filesystem::remove_all(folder_);
  }
  NatsServer(const NatsServer&) = delete;

  static bool installed() { return std::filesystem::exists(kProgram); }
  std::string url() const { return "nats://127.0.0.1:" + std::to_string(port_); }

  // Clients find it, or find it again, a moment later.
  void start() {
    process_ = ::fork();
    if (process_ != 0) return;
    const std::string at = std::to_string(port_), conf = folder_ + "/conf";
    std::ofstream(conf) << "jetstream { store_dir: \"" << folder_ << "/store\", max_file_store: " << room << " }\n"
                        << more;
    ::execl(kProgram, kProgram, "-c", conf.c_str(), "-a", "127.0.0.1", "-p", at.c_str(), "-l", "/dev/null", nullptr);
    ::_exit(127);
  }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  // It hangs: connections stay, and nothing is read from them.
  void pause() { ::kill(process_, SIGSTOP); }
  // While it is killed: all that it has kept is lost.
  void forget() { std::filesystem::remove_all(folder_ + "/store"); }

  std::string room = "4GB", more;  // of its configuration, from the next start() on

 private:
  static constexpr const char* kProgram = "/usr/sbin/nats-server";

  static uint16_t any_port() {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET, address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(0, ::bind(fd, any, size));
    EXPECT_EQ(0, ::getsockname(fd, any, &size));
    ::close(fd);
    return ntohs(address.sin_port);
  }

  const uint16_t port_ = any_port();
  pid_t process_ = 0;
  std::string folder_;
};

}  // namespace weir
