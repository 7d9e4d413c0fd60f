// Socket: one non-blocking stream socket on a shard: readiness from the loop, reading and writing straight to the
// kernel.
//
// Reading waits for readiness instead of handing the loop a buffer, so that an idle connection owns no buffer: what
// arrives is read into the shard's. Cost: one epoll_ctl per wait. Used on the shard's thread only.
#pragma once

#include <sys/uio.h>

#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

#include "net/fd.h"
#include "net/shard_parts.h"

namespace weir::net {

class Socket {
 public:
  class Owner {
   public:
    virtual void on_readable() = 0;  // data, the peer's FIN, or an error
    virtual void on_writable() = 0;
    virtual void on_broken() = 0;  // reset; or closed both ways

   protected:
    ~Owner() = default;
  };
  // What a transfer came to: `n` bytes, or why not.
  enum class Fate : uint8_t { kSome, kNone, kEof, kError };
  struct Moved {
    Fate fate;
    size_t n = 0;
    int error = 0;
  };

  Socket(Shard::Parts& shard, Fd fd, Owner& owner);

  // Calls the owner once, from a handler of the loop, never from inside. Asking again while waiting does nothing.
  void await_read();
  void await_write();
  // Calls on_broken(), for as long as the socket is open: for one that is not being read.
  void await_error();
  bool reading() const { return reading_; }
  bool writing() const { return writing_; }

  Moved read(std::span<std::byte> into);
  Moved write(std::span<const iovec> pieces);
  void shut_write();
  // No callback after this. The Socket may be destroyed when at_rest().
  void close();
  // Closes with RST, dropping what was not sent.
  void abort();
  bool open() const { return fd_.is_open(); }
  int descriptor() { return fd_.native_handle(); }
  bool at_rest() const { return waits_ == 0; }

 private:
  template <class Done>
  void wait(asio::posix::descriptor_base::wait_type what, Done done);

  asio::posix::basic_stream_descriptor<Executor> fd_;
  Owner& owner_;
  uint32_t waits_ = 0;
  bool reading_ = false, writing_ = false, erring_ = false;
};

}  // namespace weir::net
