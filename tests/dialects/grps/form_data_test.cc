// Forms, and what bytes that are none make of their reader.
#include "dialects/grps/form_data.h"

#include <gtest/gtest.h>

#include <random>

namespace weir::grps {
namespace {

constexpr std::string_view kUrlencoded = "application/x-www-form-urlencoded";
constexpr std::string_view kMultipart = "multipart/form-data; boundary=\"B b\"";

std::string part(std::string_view lines, std::string_view octets) {
  return "--B b\r\n" + std::string(lines) + "\r\n\r\n" + std::string(octets) + "\r\n";
}
std::string named(std::string_view name) {
  return "Content-Disposition: form-data; name=\"" + std::string(name) + "\"";
}
const std::string kEnd = "--B b--\r\n";

// "name=value name=value!", '!' where it is octets; or the error.
std::string describe(std::string_view type, std::string_view body) {
  auto form = FormData::read(type, base::Bytes::copy_of(body));
  if (!form) return form.error().text;
  std::string out;
  for (const auto& f : form->fields())
    out += (out.empty() ? "" : " ") + f.name + "=" + std::string(f.value.view()) +
           (f.type == FormData::Field::Type::kOctets ? "!" : "");
  return out;
}

TEST(GrpsForm, PairsAreDecodedAsBrowsersDecodeThem) {
  EXPECT_EQ(describe(kUrlencoded, "a=1&b=x+y&c=%C3%a9&&d&=e&a=2"), "a=1 b=x y c=\xc3\xa9 d= =e a=2");
  EXPECT_EQ(describe(kUrlencoded, "rate=5%&x=%zz&y=%4&%41=1"), "rate=5% x=%zz y=%4 A=1");
  EXPECT_EQ(describe("Application/X-WWW-Form-Urlencoded ; charset=utf-8", "a=b=c"), "a=b=c");
  EXPECT_EQ(describe(kUrlencoded, ""), "");
}

TEST(GrpsForm, PartsAreTheirOctets) {
  std::string body = part(named("a"), "1\r\n--B") +
                     part(named("f") + "; filename=\"x;y\"\r\nContent-Type: application/octet-stream",
                          std::string("\0\r\n\r\n\xff", 6)) +
                     part("content-type: text/plain\r\ncontent-disposition:form-data;name=t", "") + kEnd;
  auto form = FormData::read(kMultipart, base::Bytes::copy_of(body));
  ASSERT_TRUE(form) << form.error().text;
  ASSERT_EQ(form->fields().size(), 3u);
  EXPECT_EQ(form->find("a")->value.view(), "1\r\n--B");
  EXPECT_EQ(form->find("f")->value.view(), std::string_view("\0\r\n\r\n\xff", 6));
  EXPECT_EQ(form->find("f")->type, FormData::Field::Type::kOctets);
  EXPECT_EQ(form->find("t")->value.view(), "");
  EXPECT_EQ(form->find("none"), nullptr);
  EXPECT_EQ(describe(kMultipart, "to be ignored\r\n" + part(named("a\\\"b"), "1") + kEnd + "and this"), "a\"b=1");
  EXPECT_EQ(describe("multipart/form-data;boundary=B b", part(named("a"), "1") + kEnd), "a=1");
  EXPECT_EQ(describe(kMultipart, kEnd), "");
}

TEST(GrpsForm, AFileIsNotCopied) {
  auto body = base::Bytes::copy_of(part(named("f"), std::string(100'000, 'x')) + kEnd);
  auto form = FormData::read(kMultipart, body);
  ASSERT_TRUE(form);
  EXPECT_EQ(form->find("f")->value.slab(), body.slab());
}

TEST(GrpsForm, WhatIsWrongIsSaid) {
  EXPECT_NE(describe("application/json", "{}").find("Content type is not supported"), std::string::npos);
  EXPECT_NE(describe("multipart/form-data", "x").find("boundary"), std::string::npos);
  EXPECT_NE(describe("multipart/form-data; boundary=" + std::string(71, 'b'), "x").find("boundary"), std::string::npos);
  EXPECT_NE(describe(kMultipart, "").find("cut short"), std::string::npos);
  EXPECT_NE(describe(kMultipart, "--B b").find("cut short"), std::string::npos);
  EXPECT_NE(describe(kMultipart, "--B bx\r\n").find("boundary"), std::string::npos);
  EXPECT_NE(describe(kMultipart, part(named("a"), "1")).find("has no end"), std::string::npos);
  EXPECT_NE(describe(kMultipart, part("X: y", "1") + kEnd).find("Content-Disposition"), std::string::npos);
  EXPECT_NE(describe(kMultipart, "--B b\r\n\r\n1\r\n" + kEnd).find("Content-Disposition"), std::string::npos);
  EXPECT_NE(describe(kMultipart, part("Content-Disposition: attachment; name=a", "1") + kEnd).find("form-data"),
            std::string::npos);
  EXPECT_NE(describe(kMultipart, part(named("a") + "\r\nContent-Transfer-Encoding: base64", "1") + kEnd).find("7578"),
            std::string::npos);
}

TEST(GrpsForm, ItsPartsAndTheirHeadsAreBounded) {
  std::string pairs, parts;
  for (int i = 0; i < 256; ++i) pairs += "a=1&", parts += part(named("a"), "1");
  EXPECT_EQ(FormData::read(kUrlencoded, base::Bytes::copy_of(pairs))->fields().size(), 256u);
  EXPECT_EQ(FormData::read(kMultipart, base::Bytes::copy_of(parts + kEnd))->fields().size(), 256u);
  EXPECT_EQ(describe(kUrlencoded, pairs + "a"), "the form has more than 256 fields");
  EXPECT_EQ(describe(kMultipart, parts + part(named("a"), "") + kEnd), "the form has more than 256 fields");
  std::string lines = named("a") + "\r\nX: ";
  lines.append(FormData::kMaxPartHead - lines.size(), 'x');
  EXPECT_EQ(describe(kMultipart, part(lines, "1") + kEnd), "a=1");
  EXPECT_NE(describe(kMultipart, part(lines + "x", "1") + kEnd).find("8 KiB"), std::string::npos);
}

TEST(GrpsForm, EveryPrefixAndEveryBentByteIsAFormOrRefused) {
  std::string multipart =
      part(named("a"), "1") + part(named("f") + "\r\nContent-Type: application/octet-stream", "\1\2") + kEnd;
  for (std::string_view type : {kMultipart, kUrlencoded}) {
    std::string good = type == kMultipart ? multipart : "a=1&b=%20+&c";
    for (size_t n = 0; n <= good.size(); ++n) describe(type, good.substr(0, n));
    for (size_t i = 0; i < good.size(); ++i)
      for (int bend = 1; bend < 256; ++bend) {
        std::string bent = good;
        bent[i] = char(bent[i] ^ bend);
        describe(type, bent);
      }
  }
  std::string type(kMultipart);
  for (size_t i = 0; i < type.size(); ++i)
    for (int bend = 1; bend < 256; ++bend) {
      std::string bent = type;
      bent[i] = char(bent[i] ^ bend);
      describe(bent, multipart);
    }
}

TEST(GrpsForm, PiecesInAnyOrderAreAFormOrRefused) {
  const std::string pieces[] = {"--B b",
                                "--",
                                "\r\n",
                                "\r\n\r\n",
                                named("a"),
                                "=",
                                "&",
                                "%",
                                "%4",
                                ";",
                                "\"",
                                "\\",
                                "x",
                                "Content-Type: application/octet-stream",
                                std::string(1, '\0')};
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string body = round % 2 ? "--B b\r\n" : "";
    for (size_t n = random() % 24; n > 0; --n) body += pieces[random() % std::size(pieces)];
    for (std::string_view type : {kMultipart, kUrlencoded}) {
      auto form = FormData::read(type, base::Bytes::copy_of(body));
      size_t all = 0;
      if (form)
        for (const auto& f : form->fields()) all += f.name.size() + f.value.size();
      EXPECT_LE(all, body.size());
    }
    query_field(body, "x");
  }
}

TEST(GrpsForm, MarkersThatNearlyMatchCostLittle) {
  std::string body = "--B b\r\n" + named("a") + "\r\n\r\n";
  while (body.size() < 4 << 20) body += "\r\n--B c";
  EXPECT_EQ(describe(kMultipart, body), "a part of the form has no end");
}

}  // namespace
}  // namespace weir::grps
