// DormantSsl: OpenSSL's SSL of a connection, whose content is put away while the connection is idle.
//
// An SSL of OpenSSL 3.0 is 7,608 bytes, of which 1,500 are not zero. It lies in pages of its own
// (base/dormant_pages.h): OpenSSL asks our functions for memory, and they know when it is asked for an SSL. Nobody but
// the owner of an SSL refers to one: contexts, their caches and sessions do not, and a session is allocated by itself.
#pragma once

#include "base/dormant_pages.h"

using SSL = struct ssl_st;
using SSL_CTX = struct ssl_ctx_st;

namespace weir::net {

// Makes OpenSSL ask our functions for memory. To be called before anything else of OpenSSL is: false, it was too late,
// and no SSL has pages of its own. Once for the process.
bool use_memory_for_ssl();

// One thread at a time.
class DormantSsl {
 public:
  DormantSsl();
  ~DormantSsl();
  DormantSsl(const DormantSsl&) = delete;

  // SSL_new(). Once. Where there are no pages, it lies in the heap and stays there. Throws bad_alloc.
  void make(SSL_CTX* context);
  explicit operator bool() const { return ssl_ != nullptr; }
  // Awake, for whoever uses it; null before make().
  SSL* get() const {
    pages_.wake();
    return ssl_;
  }
  // Puts it away. Not inside OpenSSL. An SSL whose pages have something else stays.
  void rest() {
    if (static_cast<void*>(pages_.data()) == ssl_) pages_.rest();
  }
  bool asleep() const { return pages_.asleep(); }

 private:
  mutable base::DormantPages pages_;
  SSL* ssl_ = nullptr;
};

}  // namespace weir::net
