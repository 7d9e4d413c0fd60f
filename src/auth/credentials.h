// Credentials: the secret that a request shows. One place for every protocol, since all of them are HTTP requests:
//
//   authorization: Bearer SECRET            RFC 6750 §2.1; the metadata of gRPC
//   x-api-key: SECRET, api-key: SECRET      as clients of Anthropic's and of Azure's API send it
//   sec-websocket-protocol: weir.key.BASE64URL   of a WebSocket alone: the browser's API can set no other field. The
//                                           secret in base64url (RFC 4648 §5) without padding; the server does not
//                                           choose it as the protocol (wire/websocket.h)
//
// A request may show one secret. Fields that repeat, or say two different things, are an error: which of them counts is
// what an attacker and a proxy could disagree about. Trailers are not looked at.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "wire/exchange.h"

namespace weir::auth {

inline constexpr size_t kMostSecretBytes = size_t(16) << 10;

struct Credentials {
  bool shown = false;      // there is a secret, which may be empty
  std::string_view field;  // of the request
  std::string decoded;     // of a subprotocol; else empty

  std::string_view secret() const { return decoded.empty() ? field : std::string_view(decoded); }
};

// Errors: UNAUTHENTICATED says what is wrong with the fields.
base::Result<Credentials> credentials_of(const wire::Request& request);

}  // namespace weir::auth
