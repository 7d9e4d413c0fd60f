// Readiness: which sockets of a shard are ready, each told of every change once.
//
// One epoll set (edge-triggered) below the loop's own. The loop knows it as a single descriptor, so that a socket costs
// a system call when it comes and none for each wait: asking the loop to wait for each socket costs one every time.
// Where sockets are ready again as soon as a turn is over, the set is asked without the loop, which knows nothing of it
// meanwhile. Sockets that are ready wait in a WeightedQueue, by the load of their client. Used on the shard's thread
// only.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>

#include "net/weighted_queue.h"

namespace weir::net {

class Readiness {
 public:
  class Watcher : public WeightedQueue<Watcher>::Link {
   public:
    // `events`: EPOLLIN, …, all that have come since the last call; 0 after again() alone. May remove() and destroy any
    // Watcher.
    virtual void ready(uint32_t events) = 0;
    // The line in which it waits for that.
    virtual LoadClass load_class() const { return LoadClass::kLight; }

   protected:
    ~Watcher() = default;

   private:
    friend class Readiness;
    uint32_t events_ = 0;  // that have come
  };

  explicit Readiness(boost::asio::io_context& io);

  // Readable while some are ready.
  int descriptor() { return set_.native_handle(); }

  // From now on `watcher` is called when `fd` becomes readable or ends, and at once if it is already, until remove().
  // False when the kernel has no room for it.
  bool add(int fd, Watcher& watcher);
  // The same also when it becomes writable, for good: for one that could not be written once.
  void add_writing(int fd, Watcher& watcher);
  // `watcher` is not called any more, also for what has been fetched already. Before `fd` is closed: that alone does
  // not take it out of the set while another process has a copy of it, as a child has one until it runs its program.
  void remove(int fd, Watcher& watcher);
  // Calls `watcher` once more without a change of its socket, behind all watchers that wait in its line, so that none
  // of them starves. The loop does not sleep before. Asking again while it waits does nothing.
  void again(Watcher& watcher) { queue_.push(watcher, watcher.load_class()); }

  // Something is to be handed out without sleeping.
  bool waiting() const { return stirred_ || !queue_.empty(); }
  // Looks without the loop, if the last look found several: then more have often come meanwhile. True: some have.
  bool look();
  // The loop wakes up for sockets, once: before each time that it is asked.
  void arm();
  // Hands out one. False when nothing is ready.
  bool next();

 private:
  void fetch();

  boost::asio::posix::basic_stream_descriptor<boost::asio::io_context::executor_type> set_;
  std::array<epoll_event, 128> events_;
  bool armed_ = false;    // the loop will say so when some are ready
  bool stirred_ = false;  // there may be more in the kernel
  bool several_ = false;  // the last look has found more than one
  WeightedQueue<Watcher> queue_;
};

}  // namespace weir::net
