// The names in the certificate that the peer of a TLS connection has shown, as PeerInfo has them.
#pragma once

#include <memory>
#include <string>
#include <vector>

using SSL = struct ssl_st;
using X509 = struct x509_st;

namespace weir::net {

inline constexpr size_t kMostCertificateNames = 32, kMostCertificateName = 512;  // names; bytes of one

// "URI:…", "DNS:…", "email:…" for subject alternative names (RFC 5280 §4.2.1.6), "CN:…" for the subject's common names,
// in this order; other kinds are left out, and so are names that are not visible ASCII, or longer than
// kMostCertificateName.
std::vector<std::string> names_in(const X509* certificate);

// The names of the peer's; null where it has shown no certificate that was verified. After the handshake.
std::shared_ptr<const std::vector<std::string>> certificate_names(SSL* ssl);

}  // namespace weir::net
