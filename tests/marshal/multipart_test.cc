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

struct ReadForm {
  std::string text;
  base::Status status;
};
// In pieces of so many bytes.
ReadForm read(const std::string& body, size_t piece) {
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
    ReadForm got = read(kForm, piece);
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
    ReadForm got = read(body, piece);
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

TEST(Multipart, AParameterIsFoundWhateverStandsBesideIt) {
  EXPECT_EQ(field_parameter("form-data; name=a", "name"), "a");
  EXPECT_EQ(field_parameter("form-data;name = \t a b ;x=y", "name"), "a b");
  EXPECT_EQ(field_parameter("form-data; flag; NAME=a", "name"), "a");
  EXPECT_EQ(field_parameter("form-data; x=\"a;name=b\"; name=c", "name"), "c") << "quotes hide a semicolon";
  EXPECT_EQ(field_parameter("form-data; x=\"\\\"; name=b\"; name=c", "name"), "c");
  EXPECT_EQ(field_parameter("form-data; name=\"open", "name"), "open");
  EXPECT_EQ(field_parameter("form-data; name=\"open\\", "name"), "open\\");
  EXPECT_EQ(field_parameter("form-data; name=\"\"", "name"), "");
  EXPECT_EQ(field_parameter("form-data; name=", "name"), "");
  EXPECT_EQ(field_parameter("form-data; name= ", "name"), "");
  EXPECT_EQ(field_parameter("form-data; name", "name"), "");
  EXPECT_EQ(field_parameter("name=a", "name"), "") << "the value itself is no parameter";
  EXPECT_EQ(field_parameter("form-data; rename=a; name=b", "name"), "b");
  EXPECT_EQ(media_type(" Text/Plain ; q=1"), "Text/Plain");
  EXPECT_EQ(media_type("a/b"), "a/b");
}

TEST(Multipart, AsManyPartsAsAreAllowedAreTaken) {
  std::string body;
  for (int i = 0; i < 256; ++i) body += "--B\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n";
  for (size_t piece : {size_t(1000), body.size()}) EXPECT_TRUE(read(body + "--B--", piece).status.ok());
  EXPECT_EQ(read("--B\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n" + body + "--B--", 1000).status.text,
            "the form has more than 256 fields");
}

TEST(Multipart, AHeadHasSoManyBytesAndNoMore) {
  auto form = [](size_t head) {
    const std::string line = "Content-Disposition: form-data; name=a\r\nX: ";
    return "--B\r\n" + line + std::string(head - line.size(), 'x') + "\r\n\r\nz\r\n--B--";
  };
  for (size_t piece : {size_t(1), size_t(1000), size_t(100'000)}) {
    EXPECT_EQ(read(form(kMaxPartHead), piece).text, "[a||:z]");
    EXPECT_EQ(read(form(kMaxPartHead + 1), piece).status.text, "a part of the form has no blank line within 8 KiB");
  }
  auto blanks = [](size_t n) {
    return "--B" + std::string(n, ' ') + "\r\nContent-Disposition: form-data; name=a\r\n\r\nz\r\n--B--";
  };
  for (size_t piece : {size_t(1), size_t(100'000)}) {
    EXPECT_TRUE(read(blanks(kMaxPartHead - 2), piece).status.ok());
    EXPECT_FALSE(read(blanks(kMaxPartHead + 1), piece).status.ok());
  }
}

TEST(Multipart, APartSaysWhatItIs) {
  auto head = [](std::string_view text) {
    auto read = read_part_head(text);
    return read ? read->name + "|" + read->filename + "|" + read->content_type : read.error().text;
  };
  const std::string named = "Content-Disposition: form-data; name=a";
  EXPECT_EQ(head(named), "a||");
  EXPECT_EQ(head("X\r\n" + named + ";filename=f\r\ncontent-type: t/x; q\r\nY:"), "a|f|t/x");
  for (auto coding : {"binary", "8BIT", "7bit"})
    EXPECT_EQ(head(named + "\r\nContent-Transfer-Encoding: " + coding), "a||") << coding;
  for (auto coding : {"base64", "quoted-printable", ""})
    EXPECT_NE(head(named + "\r\nContent-Transfer-Encoding: " + coding).find("RFC 7578"), std::string::npos) << coding;
  const std::string none = "a part of the form has no Content-Disposition: form-data with a name";
  for (std::string bad : {"", "Content-Disposition: attachment; name=a", "Content-Disposition: form-data", "X: y"})
    EXPECT_EQ(head(bad), none) << bad;
}

TEST(Multipart, ABoundaryHasUpToSeventyCharacters) {
  EXPECT_EQ(boundary_of("multipart/form-data; boundary=" + std::string(70, 'x')).value(), std::string(70, 'x'));
  EXPECT_EQ(boundary_of("multipart/form-data; boundary=x").value(), "x");
  EXPECT_FALSE(boundary_of("multipart/form-data; boundary=\"\""));
}

}  // namespace
}  // namespace weir::marshal
