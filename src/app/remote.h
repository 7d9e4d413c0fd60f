// Remote: a running server, as the commands that talk to one are told of it.
#pragma once

#include <string>

#include "app/serve.h"
#include "base/env.h"
#include "net/client.h"

namespace weir::app {

enum class Output : uint8_t { kTable, kJson };

struct Remote {
  std::string url = "127.0.0.1:8080";  // HOST:PORT, unix:PATH, http://HOST:PORT, https://HOST[:PORT]
  std::string key;                     // an API key or a token; empty: WEIR_API_KEY, or none
  std::string ca_file;                 // PEM: who may have signed the certificate of an https server; empty: system's
  base::Duration timeout = std::chrono::seconds(30);
  Output output = Output::kTable;
};

// Where a Remote is, and what every request to it carries. Shared by the blocking client and by `weir bench`.
struct RemoteAddress {
  std::string address;                         // as ListenAddress
  std::string authority;                       // as the Host field has it
  std::shared_ptr<const net::TlsContext> tls;  // null: cleartext
  std::string tls_host;
  net::Client::HeaderList fields;  // the key
};
// Errors: INVALID_ARGUMENT, FAILED_PRECONDITION (ca_file); they name the option.
base::Result<RemoteAddress> find(const Remote& remote, net::TlsContext::Offer offer = net::TlsContext::Offer::kHttp1);
base::Result<net::Client> connect_to(const Remote& remote, const net::Interrupt* interrupt = nullptr);

// Asks the server once.
base::Result<net::Client::Reply> ask(const Remote& remote, std::string_view method, const std::string& target,
                                     const std::string& json = {});

// Says what was wrong with a request, in the words of the reply's body where it has some; empty: nothing. A redirect is
// wrong: it is not followed, and nothing was done.
std::string complaint(const base::Result<net::Client::Reply>& reply);

// `text` on one line and without what could command a terminal: control characters become '?'.
std::string printable(const std::string& text);

// Says on standard error what went wrong.
Exit fail(const std::string& text);

}  // namespace weir::app
