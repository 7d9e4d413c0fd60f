#include "net/certificate_names.h"

#include <gtest/gtest.h>
#include <openssl/x509v3.h>

namespace weir::net {
namespace {

using Names = std::vector<std::string>;

// A certificate with these names; nobody has signed it.
struct Certificate {
  explicit Certificate(const Names& common) {
    for (const auto& name : common)
      X509_NAME_add_entry_by_txt(X509_get_subject_name(x509.get()), "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(name.data()), int(name.size()), -1, 0);
  }
  Certificate& with(int type, const std::string& text) {
    ASN1_IA5STRING* value = ASN1_IA5STRING_new();
    ASN1_STRING_set(value, text.data(), int(text.size()));
    GENERAL_NAME* name = GENERAL_NAME_new();
    GENERAL_NAME_set0_value(name, type, value);
    sk_GENERAL_NAME_push(alternative, name);
    return *this;
  }
  Names names() {
    X509_add1_ext_i2d(x509.get(), NID_subject_alt_name, alternative, 0, X509V3_ADD_REPLACE);
    return names_in(x509.get());
  }
  ~Certificate() { GENERAL_NAMES_free(alternative); }

  std::unique_ptr<X509, decltype(&X509_free)> x509{X509_new(), X509_free};
  GENERAL_NAMES* alternative = GENERAL_NAMES_new();
};

TEST(CertificateNames, AlternativeNamesComeFirstEachWithItsKind) {
  Certificate certificate({"batch"});
  certificate.with(GEN_DNS, "a.example").with(GEN_URI, "spiffe://x/y").with(GEN_EMAIL, "bob@a.example");
  EXPECT_EQ(certificate.names(), (Names{"DNS:a.example", "URI:spiffe://x/y", "email:bob@a.example", "CN:batch"}));
}

TEST(CertificateNames, WhatCouldBeReadInTwoWaysIsLeftOut) {
  Certificate certificate({"caf\xc3\xa9", "good"});
  certificate.with(GEN_DNS, std::string("a.example\0.evil.example", 23))
      .with(GEN_DNS, "a\nb")
      .with(GEN_DNS, "")
      .with(GEN_URI, std::string(kMostCertificateName + 1, 'u'))
      .with(GEN_IPADD, std::string(4, '\x7f'));
  EXPECT_EQ(certificate.names(), Names{"CN:good"});
}

TEST(CertificateNames, TheirNumberIsBounded) {
  Certificate certificate({"last"});
  for (size_t i = 0; i < 1000; ++i) certificate.with(GEN_DNS, "n" + std::to_string(i));
  EXPECT_EQ(certificate.names().size(), kMostCertificateNames);
}

TEST(CertificateNames, ACertificateMayHaveNone) { EXPECT_EQ(Certificate({}).names(), Names{}); }

}  // namespace
}  // namespace weir::net
