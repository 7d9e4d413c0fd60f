// Certificates and keys on disk, for OpenSSL's contexts; and what OpenSSL says of them.
#pragma once

#include <openssl/ssl.h>

#include <string>

#include "base/status.h"

namespace weir::net {

// The root of what OpenSSL complains about, without its numbers. Clears this thread's errors.
std::string openssl_reason();
// FAILED_PRECONDITION with that reason. `what` the file is for: "certificate".
base::Status file_failure(const char* what, const std::string& file);

// A chain and its key, of PEM files. A key that is encrypted is refused: nobody is asked for its password. Errors:
// FAILED_PRECONDITION.
base::Status use_certificate(SSL_CTX* context, const std::string& certificate, const std::string& key);

}  // namespace weir::net
