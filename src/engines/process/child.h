// Child: a process of its own for a model, from its start to its end, with a thread that watches it: takes its log
// lines, and notices when it ends.
//
// The child and what it starts are one process group, which ends with this and with the server, however that ends
// (PR_SET_PDEATHSIG). It has no descriptor of the server's but its two sockets, the script and the pipe of its log.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/status.h"
#include "engines/process/protocol.h"

namespace weir::process {

struct ChildOptions {
  std::string model;                 // names its log lines
  std::vector<std::string> command;  // the program, looked for in PATH, and its arguments
  std::string_view script;           // the child reads it from descriptor 4; empty: there is none
  std::string folder;                // where it runs; empty: where the server runs
  uint64_t memory = 0;               // RLIMIT_AS; 0: no limit
  int side = -1;                     // the child gets it as descriptor 5; borrowed until start() returns. -1: none
  // A descriptor that the watching thread looks after, too: called when it can be read. False: it need not be, any
  // more.
  int watched = -1;
  std::function<bool()> on_readable;
  // Called as often, on the watching thread; 0: never.
  std::chrono::milliseconds often{0};
  std::function<void()> tick;
  // Once, on the watching thread, when the child has ended, whoever has ended it; not after stop(). With why().
  std::function<void(const base::Status&)> ended;
};

class Child {
 public:
  // Errors: UNAVAILABLE when it could not be started.
  static base::Result<std::unique_ptr<Child>> start(ChildOptions options);
  // Ends it at once, unless stop() has been called.
  ~Child();

  // Waits for a packet, or until `wake` can be read, or until `deadline`. One thread at a time.
  void wait(int wake, std::chrono::steady_clock::time_point deadline);
  // Waits for one packet for 20 ms at most, and until `deadline`; not at all where that is over. A descriptor is never
  // taken from a child. Nothing: there was none in time. Errors: UNAVAILABLE, why(), when the child has ended or its
  // socket is closed; INTERNAL for a packet that is no Message. One thread at a time.
  base::Result<std::optional<Message>> receive(std::chrono::steady_clock::time_point deadline);
  // Waits for the end of a child whose socket is closed, 2 s at most. why().
  base::Status ended();
  // Any thread. Errors: UNAVAILABLE, why().
  base::Status send(const Message& message, int fd = -1);
  // The same of what the child need not be told: false where there is no room for it, because it does not read now.
  bool offer(const Message& message);

  // Ends it for a reason, which why() then says; the first one counts. Any thread.
  void kill(base::Status why);
  // Asks it to end, and waits so long before it is killed. ended() is not called any more.
  void stop(std::chrono::milliseconds patience);
  bool over() const { return over_.load(std::memory_order_acquire); }
  // Why it is over: killed for a reason, or how it has ended; of one that has not loaded its model with the last line
  // that it has written. Later a line may tell of what other clients have sent: it is the log's alone.
  base::Status why() const;
  void note_loaded() { loaded_.store(true, std::memory_order_release); }
  int pid() const { return pid_; }

 private:
  explicit Child(ChildOptions options) : options_(std::move(options)) {}
  base::Status open();
  struct Ends {
    int socket, log, script, side;
  };
  base::Status spawn(const Ends& theirs);
  void watch();
  void watch_until_end(class ChildLog& log);
  void set_over(base::Status why);

  const ChildOptions options_;
  int socket_ = -1, log_ = -1, pidfd_ = -1, pid_ = -1;
  std::atomic<bool> over_{false}, quiet_{false}, exited_{false}, loaded_{false};
  mutable std::mutex mutex_;
  base::Status why_;
  std::thread watcher_;
};

}  // namespace weir::process
