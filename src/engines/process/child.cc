#include "engines/process/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <system_error>

#include "base/clock.h"
#include "base/log.h"
#include "engines/process/child_log.h"

extern char** environ;

namespace weir::process {
namespace {

using base::Code;
using base::failure;
using base::Status;
using Clock = std::chrono::steady_clock;

constexpr auto kFloodPause = std::chrono::milliseconds(5);  // between two reads of 64 KiB while lines are dropped

constexpr auto kEndPatience = std::chrono::seconds(2);  // from a child's closed socket to its end

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

Status no_start(const std::string& what, int error) {
  return failure(Code::kUnavailable, what + ": " + std::generic_category().message(error));
}

// The program's path, as a shell would find it: the child cannot look for it between vfork and exec.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  std::string_view left = path ? path : "/usr/bin:/bin";
  while (!left.empty()) {
    const size_t end = std::min(left.find(':'), left.size());
    std::string candidate = std::string(left.substr(0, end)) + '/' + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return name;
}

// All that is needed between vfork and exec, where nothing may be allocated.
struct Launch {
  const char* program;
  char** arguments;
  char** environment;
  const char* folder;  // or null
  int socket, log, null, script, side;
  uint64_t memory;
  pid_t server;
};

// Where memory ends, the kernel is to end a model and not its server, whatever the server's own badness is (Kubernetes
// gives it up to 1000); what the model starts inherits this. Of a process that runs between vfork and exec the kernel
// changes it for that one alone.
void offer_to_oom_killer() {
  constexpr int kMore = 500, kMost = 1000;  // half of all memory more than it has
  const int fd = ::open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  char text[16] = {};
  if (::read(fd, text, sizeof text - 1) > 0) {
    const int badness = std::min(std::atoi(text) + kMore, kMost);
    const int size = std::snprintf(text, sizeof text, "%d", badness);
    (void)!::pwrite(fd, text, size_t(size), 0);
  }
  ::close(fd);
}

// In the child, which shares the server's memory until it has become another program.
[[noreturn]] void become(const Launch& launch) {
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launch.server) ::_exit(125);
  offer_to_oom_killer();
  if (launch.memory > 0) {
    const rlimit limit{launch.memory, launch.memory};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(126);
  }
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  // All are above 5 (open()), so that none is overwritten before it has been copied. dup2() clears FD_CLOEXEC.
  const bool ready = ::dup2(launch.null, 0) >= 0 && ::dup2(launch.log, 1) >= 0 && ::dup2(launch.log, 2) >= 0 &&
                     ::dup2(launch.socket, kSocketFd) >= 0 &&
                     (launch.script < 0 || ::dup2(launch.script, kScriptFd) >= 0) &&
                     (launch.side < 0 || ::dup2(launch.side, kSideFd) >= 0);
  if (!ready || (launch.folder && ::chdir(launch.folder) != 0)) ::_exit(126);
  if (launch.script < 0) ::close(kScriptFd);
  ::syscall(SYS_close_range, launch.side < 0 ? kSideFd : kSideFd + 1, ~0U, 0);
  ::execve(launch.program, launch.arguments, launch.environment);
  ::_exit(127);
}

// A descriptor above those that the child gets.
int lift(int fd) {
  if (fd < 0 || fd > kSideFd) return fd;
  const int lifted = ::fcntl(fd, F_DUPFD_CLOEXEC, kSideFd + 1);
  ::close(fd);
  return lifted;
}

int script_file(std::string_view script) {
  const int fd = ::memfd_create("script", MFD_CLOEXEC);
  while (fd >= 0 && !script.empty()) {
    const ssize_t n = ::write(fd, script.data(), script.size());
    if (n <= 0) break;
    script.remove_prefix(size_t(n));
  }
  return fd;
}

// The server's environment without its own settings, which may hold secrets.
std::vector<char*> child_environment() {
  std::vector<char*> out;
  for (char** entry = environ; *entry; ++entry)
    if (std::strncmp(*entry, "WEIR_", 5) != 0) out.push_back(*entry);
  out.push_back(nullptr);
  return out;
}

std::string ending(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED && info.si_status == 127) return "it could not be started";
  if (info.si_code == CLD_EXITED) return "it exited with status " + std::to_string(info.si_status);
  const char* name = ::sigabbrev_np(info.si_status);
  return "it was ended by signal " + (name ? "SIG" + std::string(name) : std::to_string(info.si_status));
}

}  // namespace

base::Result<std::unique_ptr<Child>> Child::start(ChildOptions options) {
  std::unique_ptr<Child> child(new Child(std::move(options)));
  if (Status status = child->open(); !status.ok()) return status;
  return child;
}

// The kernel sends PR_SET_PDEATHSIG when the thread that started the child ends: so that is the one which watches it.
Status Child::open() {
  auto started = std::make_shared<std::promise<Status>>();
  auto outcome = started->get_future();
  int pair[2], pipe[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return no_start("no socket", errno);
  socket_ = pair[0];
  const timeval slice{0, 20'000};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice);
  Descriptor theirs(lift(pair[1]));
  if (::pipe2(pipe, O_CLOEXEC) != 0) return no_start("no pipe", errno);
  log_ = pipe[0];
  Descriptor log(lift(pipe[1]));
  Descriptor script(options_.script.empty() ? -1 : lift(script_file(options_.script)));
  Descriptor side(options_.side < 0 ? -1 : ::fcntl(options_.side, F_DUPFD_CLOEXEC, kSideFd + 1));
  if (theirs.get() < 0 || log.get() < 0 || (script.get() < 0 && !options_.script.empty()) ||
      (side.get() < 0 && options_.side >= 0))
    return no_start("no descriptor", errno);
  ::fcntl(log_, F_SETFL, O_NONBLOCK);
  const Ends ends{theirs.get(), log.get(), script.get(), side.get()};
  watcher_ = std::thread([this, started, ends] {
    Status status = spawn(ends);
    const bool good = status.ok();
    started->set_value(std::move(status));  // the descriptors may be gone after this
    if (good) watch();
  });
  return outcome.get();
}

Status Child::spawn(const Ends& theirs) {
  ::pthread_setname_np(::pthread_self(), "child");
  const std::string program = find_program(options_.command.front());
  std::vector<char*> arguments;
  for (const auto& argument : options_.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  auto environment = child_environment();
  Descriptor null(lift(::open("/dev/null", O_RDWR | O_CLOEXEC)));
  const Launch launch{program.c_str(),    arguments.data(),
                      environment.data(), options_.folder.empty() ? nullptr : options_.folder.c_str(),
                      theirs.socket,      theirs.log,
                      null.get(),         theirs.script,
                      theirs.side,        options_.memory,
                      ::getpid()};
  // No handler of the server's may run in the child while it shares its memory.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::vfork();
  if (pid == 0) become(launch);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return no_start("no process", error);
  pid_ = pid;
  pidfd_ = int(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd_ >= 0) return {};
  const int why = errno;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return no_start("no descriptor of a process", why);
}

void Child::watch() {
  ChildLog log([model = options_.model](base::log::Level level, std::string_view line) {
    if (base::log::enabled(level)) base::log::write(level, "model's process", {{"model", model}, {"line", line}});
  });
  watch_until_end(log);
  siginfo_t info{};
  ::waitid(P_PIDFD, id_t(pidfd_), &info, WEXITED | WNOWAIT);  // its number is nobody else's yet
  {
    std::lock_guard lock(mutex_);
    ::kill(-pid_, SIGKILL);  // what it has started
    exited_.store(true, std::memory_order_release);
  }
  ::waitid(P_PIDFD, id_t(pidfd_), &info, WEXITED);
  log.finish(base::steady_now());
  std::string text = "the process of model '" + options_.model + "' has ended: " + ending(info);
  if (!loaded_.load(std::memory_order_acquire) && !log.last().empty()) text += " (" + log.last().substr(0, 200) + ")";
  set_over(failure(Code::kUnavailable, std::move(text)));
  if (!quiet_.load(std::memory_order_acquire) && options_.ended) options_.ended(this->why());
}

// Reads the pipe until the child has ended; then what is left in it, and no more: others may hold its end.
void Child::watch_until_end(ChildLog& log) {
  std::vector<char> room(64 << 10);
  bool open = true, watched = options_.on_readable != nullptr;
  auto drain = [&] {
    const ssize_t n = ::read(log_, room.data(), room.size());
    if (n > 0) log.feed({room.data(), size_t(n)}, base::steady_now());
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) open = false;
    return n > 0;
  };
  auto next_tick = Clock::now() + options_.often;
  auto to_tick = [&] {
    if (options_.often.count() == 0) return std::chrono::milliseconds(-1);
    if (Clock::now() >= next_tick) options_.tick(), next_tick = Clock::now() + options_.often;
    return std::chrono::ceil<std::chrono::milliseconds>(next_tick - Clock::now());
  };
  for (;;) {
    pollfd fds[3] = {{pidfd_, POLLIN, 0}, {open ? log_ : -1, POLLIN, 0}, {watched ? options_.watched : -1, POLLIN, 0}};
    const auto wait =
        log.flooded() ? std::chrono::duration_cast<std::chrono::milliseconds>(ChildLog::kQuiet) : to_tick();
    if (::poll(fds, 3, int(wait.count())) < 0) continue;
    if (fds[1].revents != 0) (void)drain();
    if (fds[2].revents != 0) watched = options_.on_readable();
    if (fds[0].revents != 0) break;
    if (!log.flooded()) continue;
    log.report_dropped_when_quiet(base::steady_now());
    std::this_thread::sleep_for(kFloodPause);
  }
  for (int most = 16; open && most > 0 && drain(); --most) {
  }
}

// Whoever waits for a packet is woken, also when a process that the child has started still has its end.
void Child::set_over(Status why) {
  {
    std::lock_guard lock(mutex_);
    if (why_.ok()) why_ = std::move(why);
  }
  over_.store(true, std::memory_order_release);
  ::shutdown(socket_, SHUT_RDWR);
}

Status Child::why() const {
  std::lock_guard lock(mutex_);
  return why_.ok() ? failure(Code::kUnavailable, "the process of model '" + options_.model + "' has closed its socket")
                   : why_;
}

void Child::kill(Status why) {
  std::lock_guard lock(mutex_);
  if (why_.ok()) why_ = std::move(why);
  over_.store(true, std::memory_order_release);
  if (!exited_.load(std::memory_order_acquire)) ::kill(-pid_, SIGKILL);
}

void Child::stop(std::chrono::milliseconds patience) {
  quiet_.store(true, std::memory_order_release);
  if (!over() && send({.type = Type::kStop}).ok()) {
    const auto until = Clock::now() + patience;
    while (!exited_.load(std::memory_order_acquire) && Clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  kill(failure(Code::kUnavailable, "model '" + options_.model + "' is being unloaded"));
}

Child::~Child() {
  quiet_.store(true, std::memory_order_release);
  if (pidfd_ >= 0) kill(failure(Code::kUnavailable, "model '" + options_.model + "' is being unloaded"));
  if (watcher_.joinable()) watcher_.join();
  for (int fd : {socket_, log_, pidfd_})
    if (fd >= 0) ::close(fd);
}

void Child::wait(int wake, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  pollfd fds[2] = {{socket_, POLLIN, 0}, {wake, POLLIN, 0}};
  (void)::poll(fds, 2, int(std::clamp<int64_t>(left.count(), 0, 60'000)));
}

base::Result<std::optional<Message>> Child::receive(Clock::time_point deadline) {
  const bool now = deadline <= Clock::now();
  Message message;
  iovec io{&message, sizeof message};
  msghdr header{};
  header.msg_iov = &io, header.msg_iovlen = 1;  // no room for control data: descriptors are dropped by the kernel
  const ssize_t n = ::recvmsg(socket_, &header, MSG_CMSG_CLOEXEC | (now ? MSG_DONTWAIT : 0));
  if (n == ssize_t(sizeof message) && (header.msg_flags & MSG_TRUNC) == 0) return std::optional(message);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return std::optional<Message>();
  if (n > 0) return failure(Code::kInternal, "model '" + options_.model + "' sent a packet that is no message");
  return ended();
}

// The cause is known as soon as the watching thread has seen the end, if it is one.
Status Child::ended() {
  const auto until = Clock::now() + kEndPatience;
  while (!over() && Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return why();
}

bool Child::offer(const Message& message) {
  return ::send(socket_, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL) == ssize_t(sizeof message);
}

Status Child::send(const Message& message, int fd) {
  iovec io{const_cast<Message*>(&message), sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &io, header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = control, header.msg_controllen = sizeof control;
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET, part->cmsg_type = SCM_RIGHTS, part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
  }
  ssize_t n;
  do n = ::sendmsg(socket_, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  if (n == ssize_t(sizeof message)) return {};
  if (n < 0 && errno == EAGAIN)
    kill(failure(Code::kUnavailable, "the process of model '" + options_.model + "' does not read its socket"));
  return why();
}

}  // namespace weir::process
