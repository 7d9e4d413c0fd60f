#include "net/certificate_names.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <string_view>

namespace weir::net {
namespace {

using NameList = std::vector<std::string>;

// A NUL byte inside, or what is not ASCII, could be read as another name by somebody else.
void add_certificate_name(NameList& names, std::string_view kind, std::string_view text) {
  bool visible = std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (!visible || text.empty() || text.size() > kMostCertificateName || names.size() == kMostCertificateNames) return;
  names.push_back(std::string(kind) + std::string(text));
}

std::string_view text_of(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)), size_t(ASN1_STRING_length(text))};
}

void add_alternative_names(NameList& names, const X509* certificate) {
  std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> list(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      &GENERAL_NAMES_free);
  for (int i = 0; list && i < sk_GENERAL_NAME_num(list.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(list.get(), i);
    if (name->type == GEN_URI) add_certificate_name(names, "URI:", text_of(name->d.ia5));
    if (name->type == GEN_DNS) add_certificate_name(names, "DNS:", text_of(name->d.ia5));
    if (name->type == GEN_EMAIL) add_certificate_name(names, "email:", text_of(name->d.ia5));
  }
}

void add_common_names(NameList& names, const X509* certificate) {
  const X509_NAME* subject = X509_get_subject_name(certificate);
  for (int at = -1; (at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0;) {
    unsigned char* utf8 = nullptr;
    int size = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    if (size < 0) continue;
    add_certificate_name(names, "CN:", {reinterpret_cast<char*>(utf8), size_t(size)});
    OPENSSL_free(utf8);
  }
}

}  // namespace

NameList names_in(const X509* certificate) {
  NameList names;
  add_alternative_names(names, certificate);
  add_common_names(names, certificate);
  ERR_clear_error();
  return names;
}

std::shared_ptr<const NameList> certificate_names(SSL* ssl) {
  const X509* certificate = SSL_get0_peer_certificate(ssl);
  if (!certificate || SSL_get_verify_result(ssl) != X509_V_OK) return nullptr;
  return std::make_shared<const NameList>(names_in(certificate));
}

}  // namespace weir::net
