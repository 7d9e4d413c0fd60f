// ClientConn: one connection of ours to a server, on a shard, without blocking: a socket, TLS where it is wanted, and a
// wire::ClientCodec. For what sends many requests: `weir bench`, and forwarding. (Client is for threads that may wait.)
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/address.h"
#include "net/shard.h"
#include "net/tls.h"
#include "wire/client_codec.h"

namespace weir::net {

class ClientConn {
 public:
  // Called on the shard's thread. May destroy the ClientConn in any call; an answer may not.
  class Owner {
   public:
    // It is connected: requests may be sent.
    virtual void on_open(ClientConn& conn) = 0;
    // has_room() was asked and false, and there is room again.
    virtual void on_room(ClientConn&) {}
    // It is gone, and every answer that was not whole has failed. Last call. UNAVAILABLE says why.
    virtual void on_closed(ClientConn& conn, const base::Status& why) = 0;

   protected:
    ~Owner() = default;
  };
  enum class Http : uint8_t { k1, k2 };  // 2: without TLS by prior knowledge, with TLS by ALPN
  struct Options {
    std::vector<Endpoint> endpoints;  // tried in their order; one at least
    Http http = Http::k1;
    std::shared_ptr<const TlsContext> tls;                      // for_client(), its offer as `http`; null: cleartext
    std::string tls_host;                                       // whose certificate it must be
    base::Duration connect_timeout = std::chrono::seconds(10);  // of all of it, TLS included
  };

  // Begins to connect; the owner is called later, never from inside. `owner` outlives this, the shard does too.
  ClientConn(Shard& shard, Options options, Owner& owner);
  ~ClientConn();  // closes; no answer is called any more
  ClientConn(const ClientConn&) = delete;

  // As ClientCodec's; false until it is open.
  bool has_room() const;
  void send(const wire::ClientRequest& request, wire::ClientAnswer& answer);
  void cancel(wire::ClientAnswer& answer);
  void consume(wire::ClientAnswer& answer, size_t n);
  bool finished() const;

  class Link;  // client_conn.cc's own

 private:
  Shard::Parts& shard_;
  std::unique_ptr<Link> link_;
};

}  // namespace weir::net
