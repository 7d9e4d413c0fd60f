// Socket: one non-blocking stream socket on a shard: readiness from the shard's Readiness, reading and writing straight
// to the kernel.
//
// Reading waits for readiness instead of handing the loop a buffer, so that an idle connection owns no buffer: what
// arrives is read into the shard's. The kernel tells of each change once, so this remembers what it has told: a socket
// is readable until a read came back with less than there was room for. Used on the shard's thread only.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "net/fd.h"
#include "net/readiness.h"
#include "net/shard_parts.h"

namespace weir::net {

class Socket final : private Readiness::Watcher {
 public:
  class Owner {
   public:
    virtual void on_readable() = 0;  // data, the peer's FIN, or an error
    virtual void on_writable() = 0;
    virtual void on_broken() = 0;  // reset; or closed both ways
    // The line in which the socket waits for these calls.
    virtual LoadClass load_class() const { return LoadClass::kLight; }

   protected:
    ~Owner() = default;
  };
  // The result of a transfer: `n` bytes, or why not.
  enum class Fate : uint8_t { kSome, kNone, kEof, kError };
  struct Moved {
    Fate fate;
    size_t n = 0;
    int error = 0;
  };

  Socket(Shard::Parts& shard, Fd fd, Owner& owner);
  ~Socket() { close(); }
  Socket(const Socket&) = delete;

  // Calls the owner once, from the loop, never from inside; the owner may destroy the Socket then. Asking again while
  // waiting does nothing.
  void await_read();
  void await_write();
  // Calls on_broken(), for as long as the socket is open: for one that is not being read.
  void await_error();
  bool reading() const { return reading_; }
  bool writing() const { return writing_; }
  // The peer has sent its FIN; bytes in front of it may not be read yet.
  bool ended() const { return ended_; }

  Moved read(std::span<std::byte> into);
  // Takes from the kernel what it has, as read() does, for nobody to look at. TCP does not copy it; other sockets use
  // `scratch`.
  Moved discard(std::span<std::byte> scratch) { return receive(scratch, MSG_TRUNC); }
  Moved write(std::span<const iovec> pieces);
  // Bytes that the kernel has taken, and the peer's kernel has not acknowledged; 0 where it does not say.
  size_t undelivered() const;
  void shut_write();
  // No callback after this.
  void close();
  // Closes with RST, dropping what was not sent.
  void abort();
  bool open() const { return bool(fd_); }
  int descriptor() const { return fd_.get(); }
  // Nothing refers to it any more.
  bool at_rest() const { return !open(); }

 private:
  void ready(uint32_t events) override;
  LoadClass load_class() const override { return owner_.load_class(); }
  Moved receive(std::span<std::byte> into, int flags);

  Shard::Parts& shard_;
  Fd fd_;
  Owner& owner_;
  bool reading_ = false, writing_ = false, erring_ = false;
  bool filled_ = false;  // once: its readiness for writing is watched since
  // The state that the kernel has reported.
  bool readable_ = false;
  bool broken_ = false;
  bool ended_ = false;
  bool ragged_ = false;  // the peer's FIN, or urgent data, which cuts reads short: only an empty read says all is read
};

}  // namespace weir::net
