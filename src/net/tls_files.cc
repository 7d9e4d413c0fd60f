#include "net/tls_files.h"

#include <openssl/err.h>

#include <cstring>

namespace weir::net {
namespace {

// Replaces OpenSSL's password callback, which would ask on the terminal while the shard and all its connections wait.
int refuse_password(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

base::Status use_key(SSL_CTX* context, const std::string& key) {
  bool encrypted = false;
  SSL_CTX_set_default_passwd_cb(context, refuse_password);
  SSL_CTX_set_default_passwd_cb_userdata(context, &encrypted);
  const bool used = SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) == 1;
  SSL_CTX_set_default_passwd_cb(context, nullptr);
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
  if (used) return {};
  if (!encrypted) return file_failure("key", key);
  ERR_clear_error();
  return base::failure(base::Code::kFailedPrecondition, "TLS: cannot use key " + key + ": the key is encrypted");
}

}  // namespace

std::string openssl_reason() {
  unsigned long first = ERR_peek_error();
  const char* text = first ? ERR_reason_error_string(first) : nullptr;
  // Errors of the system (a file that is not there) carry errno and no text of their own.
  if (first && ERR_SYSTEM_ERROR(first)) text = std::strerror(ERR_GET_REASON(first));
  ERR_clear_error();
  return text ? text : "unknown error";
}

base::Status file_failure(const char* what, const std::string& file) {
  return base::failure(base::Code::kFailedPrecondition,
                       std::string("TLS: cannot use ") + what + " " + file + ": " + openssl_reason());
}

base::Status use_certificate(SSL_CTX* context, const std::string& certificate, const std::string& key) {
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1)
    return file_failure("certificate", certificate);
  if (auto status = use_key(context, key); !status.ok()) return status;
  return SSL_CTX_check_private_key(context) == 1 ? base::Status() : file_failure("key", key);
}

}  // namespace weir::net
