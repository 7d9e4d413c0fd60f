#include "net/key_exchange.h"

#include <openssl/err.h>

#include <string>

#include "net/tls_files.h"

namespace weir::net {

// The first list that OpenSSL takes counts. The asterisk, with which a client sends a share of a group, is as young as
// the hybrid. X25519 may be missing where FIPS is asked for.
base::Status use_curves(SSL_CTX* context) {
  for (const char* groups :
       {"*X25519MLKEM768:*X25519:P-256:P-384:P-521", "X25519:P-256:P-384:P-521", "P-256:P-384:P-521"})
    if (SSL_CTX_set1_groups_list(context, groups) == 1) {
      ERR_clear_error();
      return {};
    }
  return base::failure(base::Code::kInternal, "TLS: no group for key exchanges: " + openssl_reason());
}

base::Status use_ciphers_of_curves(SSL_CTX* context) {
  std::string names;
  const auto* ciphers = SSL_CTX_get_ciphers(context);
  for (int i = 0; i < sk_SSL_CIPHER_num(ciphers); ++i) {
    const SSL_CIPHER* cipher = sk_SSL_CIPHER_value(ciphers, i);
    const int exchange = SSL_CIPHER_get_kx_nid(cipher);
    // Those of TLS 1.3 (kx_any) are a list of their own, and their groups are above.
    if (exchange == NID_kx_ecdhe) (names += SSL_CIPHER_get_name(cipher)) += ':';
  }
  const bool taken = names.empty() ? SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1
                                   : SSL_CTX_set_cipher_list(context, names.c_str()) == 1;
  if (taken) return {};
  return base::failure(base::Code::kInternal, "TLS: no ciphers: " + openssl_reason());
}

}  // namespace weir::net
