// Which key exchanges our connections of TLS take: those over elliptic curves. Over finite fields a peer chooses how
// much it costs us: a share of ffdhe8192 takes 100 ms of the shard, and the peer need not compute its own
// (CVE-2002-20001).
#pragma once

#include <openssl/ssl.h>

#include "base/status.h"

namespace weir::net {

// X25519, with ML-KEM beside it where OpenSSL knows that (from 3.5 on), and the curves P-256, P-384 and P-521, in this
// order. Errors: INTERNAL, where OpenSSL takes none of them.
base::Status use_curves(SSL_CTX* context);

// The same for TLS 1.2: the ciphers that `context` has, without DHE, in which a server chooses a field of up to 10,000
// bits, and without RSA, in which whoever gets the key later reads what was said. Errors: INTERNAL.
base::Status use_ciphers_of_curves(SSL_CTX* context);

}  // namespace weir::net
