// Server: the listeners of all shards and their connections, as one thing to start and to drain.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/client.h"
#include "base/metrics.h"
#include "base/network.h"
#include "base/status.h"
#include "net/inherited.h"
#include "net/shard.h"
#include "wire/codec.h"

namespace weir::net {

struct ListenAddress {
  std::string text;  // "127.0.0.1:8080", "[::]:8080", "localhost:0", "unix:/run/weir.sock"
  wire::AdminMethods admin = wire::AdminMethods::kServed;
  ListensFor whom = ListensFor::kClients;
};

struct TlsOptions {
  std::string certificate, key;  // PEM files; both empty = no TLS
  std::string client_ca;         // set: clients must show a certificate signed by it
  bool required = false;         // refuse cleartext on TCP listeners; a client CA does too, or it would guard nothing

  bool refuses_cleartext() const { return required || !client_ca.empty(); }
};

struct ServerOptions {
  std::vector<ListenAddress> listen;
  TlsOptions tls;
  TlsOptions node_tls;                // of addresses that are for nodes: has a client CA, and refuses cleartext
  uint32_t max_connections = 10000;   // whole server; never more than half of the file descriptors there can be
  base::ShareRule share{.least = 8};  // of the connections that one client may have; clients: CodecEnv::proxies
  base::NetworkList proxy_protocol;  // peers whose connections begin with a PROXY header, and are closed if they do not
  base::Duration drain_delay{0};     // not ready, still serving
  base::Duration drain_timeout = std::chrono::seconds(30);
};

class Server {
 public:
  // One CodecEnv per shard, in the shards' order; they must outlive the Server. Lets this process have as many file
  // descriptors as the system allows it.
  Server(std::vector<Shard*> shards, std::vector<wire::CodecEnv> envs, ServerOptions options, base::Metrics& metrics);
  ~Server();

  // Sockets that listen already are used for the addresses that they are at, instead of new ones. Before bind().
  void inherit(InheritedSockets sockets);
  // Binds and listens. Errors: the address and the reason, for a person; nothing is left bound.
  base::Status bind();
  // The addresses as bound ("127.0.0.1:41234" for port 0), after bind(), in the order of `listen`.
  std::vector<std::string> bound() const;
  std::vector<std::string> bound(wire::AdminMethods admin) const;  // those of them for clients that do this
  std::vector<std::string> bound(ListensFor whom) const;
  // The listening sockets, between bind() and start(), for a service manager that keeps them for the next process. The
  // files of unix sockets then stay when this process ends.
  std::vector<int> share_sockets();
  void start();

  // Reads certificate and key again; connections that are up keep theirs. On failure the old ones stay in use.
  base::Status reload_tls();

  // Memory for request bodies came free (SlabPool::on_room): connections that were held back look again. Any thread.
  void resume_reading();

  // Two-step drain of every connection: announce, then refuse, then wait until all are idle and closed, or the timeout.
  // `done` is called once, from some shard's thread; `clean` tells whether every request finished.
  void drain(std::function<void(bool clean)> done);
  size_t connections() const;
  size_t max_connections() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::net
