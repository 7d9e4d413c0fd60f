#include "marshal/multipart.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::marshal {
namespace {

// The parts of a form, as they came.
struct Parts final : PartListener {
  base::Status on_part(PartHead head) override {
    text += "[" + head.name + "|" + head.filename + "|" + head.content_type + ":";
    return {};
  }
  base::Status on_octets(std::string_view octets) override {
    EXPECT_FALSE(octets.empty());
    text += octets;
    return refused ? base::invalid("enough") : base::Status();
  }
  base::Status on_part_end() override {
    text += "]";
    return {};
  }
  std::string text;
  bool refused = false;
};

struct Read {
  std::string text;
  base::Status status;
};
// In pieces of so many bytes.
Read read(const std::string& body, size_t piece) {
  Parts parts;
  MultipartReader reader("B", parts);
  base::Status status;
  for (size_t at = 0; at < body.size() && status.ok(); at += piece)
    status = reader.read(std::string_view(body).substr(at, piece));
  if (status.ok()) status = reader.finish();
  return {parts.text, status};
}

const std::string kForm =
    "preamble\r\n--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--B  \r\n"
    "Content-Disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\".jsonl\"\r\nContent-Type: text/x; q=1\r\n\r\n"
    "one\r\n--\r\n-B\r\n--two\r\n\r\n--B\r\nContent-Disposition: form-data; name=empty\r\n\r\n\r\n--B--\r\nepilogue "
    "--B";
const std::string kParts = "[purpose||:batch][file|a \"b\".jsonl|text/x:one\r\n--\r\n-B\r\n--two\r\n][empty||:]";

TEST(Multipart, AFormIsTheSameInEverySplit) {
  for (size_t piece = 1; piece <= kForm.size(); ++piece) {
    Read got = read(kForm, piece);
    EXPECT_TRUE(got.status.ok()) << piece << " " << got.status.text;
    EXPECT_EQ(kParts, got.text) << piece;
  }
}

TEST(Multipart, ABodyMayBeginWithItsBoundary) {
  for (size_t piece : {1, 2, 3, 100})
    EXPECT_EQ("[a||:x]", read("--B\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--B--", piece).text);
}

TEST(Multipart, ALargePartComesInOnePieceOrMany) {
  const std::string octets(300'000, 'x');
  const std::string body = "--B\r\nContent-Disposition: form-data; name=a\r\n\r\n" + octets + "\r\n--B--";
  for (size_t piece : {size_t(1000), size_t(65536), body.size()}) {
    Read got = read(body, piece);
    EXPECT_TRUE(got.status.ok()) << got.status.text;
    EXPECT_EQ("[a||:" + octets + "]", got.text);
  }
}

TEST(Multipart, WhatIsNoFormIsRefused) {
  const std::string head = "--B\r\nContent-Disposition: form-data; name=a\r\n\r\n";
  const std::vector<std::string> bodies{
      "",
      "--B",
      "nothing",
      head,
      head + "x\r\n--B",
      head + "x\r\n--Bx\r\n\r\n--B--",
      "--B\r\nX: y\r\n\r\nz\r\n--B--",
      "--B\r\n\r\nz\r\n--B--",
      "--B\r\nX: " + std::string(9000, 'x'),
      "--B" + std::string(20000, ' '),
      "--B\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64\r\n\r\nx\r\n--B--"};
  for (const std::string& body : bodies)
    for (size_t piece : {1, 7, 100000}) EXPECT_FALSE(read(body, piece).status.ok()) << body.substr(0, 60);
}

TEST(Multipart, ManyPartsAreRefused) {
  std::string body;
  for (int i = 0; i < 257; ++i) body += "--B\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n";
  EXPECT_FALSE(read(body + "--B--", 1000).status.ok());
}

TEST(Multipart, TheListenerMayRefuse) {
  Parts parts;
  parts.refused = true;
  MultipartReader reader("B", parts);
  EXPECT_EQ("enough",
            reader.read("--B\r\nContent-Disposition: form-data; name=a\r\n\r\n" + std::string(100, 'x')).text);
}

TEST(Multipart, BoundariesOfAContentType) {
  EXPECT_EQ("a b", boundary_of("multipart/form-data; boundary=\"a b\"").value());
  EXPECT_EQ("x", boundary_of("multipart/form-data; charset=utf-8; BOUNDARY=x ; y=z").value());
  EXPECT_FALSE(boundary_of("multipart/form-data"));
  EXPECT_FALSE(boundary_of("multipart/form-data; boundary=" + std::string(71, 'x')));
}

}  // namespace
}  // namespace weir::marshal
