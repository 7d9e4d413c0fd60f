#include "base/encoding.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/base64url.h"
#include "base/status.h"

namespace weir::base {
namespace {

TEST(Percent, DecodesEscapesAndKeepsTheRest) {
  EXPECT_EQ(percent_decode("a%2Fb%20c+d"), "a/b c+d");
  EXPECT_EQ(percent_decode("%c3%A9"), "é");
  EXPECT_EQ(percent_decode(""), "");
  EXPECT_EQ(percent_decode("%00")->size(), 1u);
}

TEST(Percent, RefusesBadAndCutEscapes) {
  for (auto* text : {"%", "%4", "a%zz", "%4g", "%%41", "abc%2"}) EXPECT_EQ(percent_decode(text), std::nullopt) << text;
}

TEST(Percent, EncodingAndDecodingAnyByteGivesItBack) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += char(c);
  EXPECT_EQ(percent_decode(percent_encode(all)), all);
  EXPECT_EQ(percent_encode("a-b_c.d~/"), "a-b_c.d~%2F");
}

TEST(Base64, KnowsTheVectorsOfRfc4648) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (auto [plain, coded] : vectors) {
    EXPECT_EQ(base64_encode(plain), coded);
    EXPECT_EQ(base64_decode(coded), plain);
  }
}

TEST(Base64, PaddingMayBeLeftOutButNotInvented) {
  EXPECT_EQ(base64_encode("f", Padding::kNone), "Zg");
  EXPECT_EQ(base64_decode("Zg"), "f");
  EXPECT_EQ(base64_decode("Zm8"), "fo");
  for (auto* text : {"Z", "Zg=", "Z===", "=", "Zm9v====", "Z-_v", "Zm 9", "Zm9v=", "=Zm9"})
    EXPECT_EQ(base64_decode(text), std::nullopt) << text;
}

TEST(Base64Url, StrictlyEachValueHasOneText) {
  EXPECT_EQ(base64url_decode("-_-_", Base64Url::kStrict), "\xfb\xff\xbf");
  EXPECT_EQ(base64url_decode("Zg", Base64Url::kStrict), "f");
  for (const char* text : {"+/+/", "Zg==", "Zh", "Z", "Zg\n"})
    EXPECT_EQ(base64url_decode(text, Base64Url::kStrict), std::nullopt) << text;
}

TEST(Base64Url, LenientlyBothAlphabetsAndPaddingAreTaken) {
  for (const char* text : {"-_-_", "+/+/", "-/+_"})
    EXPECT_EQ(base64url_decode(text, Base64Url::kLenient), "\xfb\xff\xbf") << text;
  for (const char* text : {"Zg", "Zg==", "Zh"}) EXPECT_EQ(base64url_decode(text, Base64Url::kLenient), "f") << text;
  for (const char* text : {"Z", "Zg=", "Zg\n"})
    EXPECT_EQ(base64url_decode(text, Base64Url::kLenient), std::nullopt) << text;
}

TEST(Base64, AnyBytesComeBack) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    bytes += char(i * 37);
    ASSERT_EQ(base64_decode(base64_encode(bytes)), bytes);
    ASSERT_EQ(base64_decode(base64_encode(bytes, Padding::kNone)), bytes);
  }
}

TEST(Hex, WritesTwoLowerCaseDigitsPerByte) { EXPECT_EQ(hex(std::string_view("\x00\xff\x1a", 3)), "00ff1a"); }

TEST(CutText, EndsBetweenCharacters) {
  EXPECT_EQ(cut_text("abc", 3), "abc");
  EXPECT_EQ(cut_text("abcd", 3), "abc");
  EXPECT_EQ(cut_text("a\xc3\xa9", 2), "a");
  EXPECT_EQ(cut_text("a\xc3\xa9z", 3), "a\xc3\xa9");
  for (size_t most : {1, 2, 3}) EXPECT_EQ(cut_text("\xf0\x9f\x98\x80", most), "") << most;
  EXPECT_EQ(cut_text("\xf0\x9f\x98\x80z", 4), "\xf0\x9f\x98\x80");
  EXPECT_EQ(cut_text(std::string(9, '\x80'), 5).size(), 2u) << "what is no UTF-8 is cut somewhere";
}

TEST(InvalidField, ALongNameIsCutBetweenCharacters) {
  std::string details = invalid_field(std::string(511, 'n') + "\xc3\xa9", "it is wrong").details;
  EXPECT_NE(details.find(std::string(511, 'n')), std::string::npos);
  EXPECT_EQ(details.find("n\xc3"), std::string::npos);
}

TEST(Presentable, IsUtf8WithoutControlCharactersAndNotLong) {
  EXPECT_EQ(presentable("'h\xc3\xa9' \xf0\x9f\x98\x80", 100), "'h\xc3\xa9' \xf0\x9f\x98\x80");
  EXPECT_EQ(presentable("a\n\x7f\x1b[1m", 100), "a\n??[1m");
  EXPECT_EQ(presentable("\xff\xc3(\xe0\x80\x80\xed\xa0\x80\xf4\x90\x80\x80\xc3", 100),
            "?"
            "?(" +
                std::string(11, '?'));
  EXPECT_EQ(presentable("\xc3\xa9\xc3\xa9\xc3\xa9", 3), "\xc3\xa9\xc3\xa9...");
  EXPECT_EQ(presentable("abc", 3), "abc");
}

TEST(NearMiss, FindsTypingSlipsAndNothingFarther) {
  std::vector<std::string_view> names{"digits", "simple", "simple_string", "identity"};
  EXPECT_EQ(near_miss("digit", names), "digits");
  EXPECT_EQ(near_miss("identiyt", names), "identity");
  EXPECT_EQ(near_miss("smiple", names), "simple");
  EXPECT_EQ(near_miss("resnet50", names), "");
  EXPECT_EQ(near_miss("", std::vector<std::string_view>{}), "");
}

TEST(NearMiss, WordsThatNobodyCanHaveMistypedAreNearToNothing) {
  std::vector<std::string_view> names{"digits", "identity"};
  for (size_t n : {257, 763, 100'000}) EXPECT_EQ(near_miss(std::string(n, 'x'), names), "") << n;
  std::string longest(256, 'x'), nearly = longest.substr(1), longer = longest + "x";
  names = {"a", longer, nearly};
  EXPECT_EQ(near_miss(longest, names), nearly);
  names = {"a", longer};
  EXPECT_EQ(near_miss(longest, names), "");
}

TEST(EditDistance, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance(std::string(1000, 'a'), "b"), 256u) << "long words are not compared";
}

}  // namespace
}  // namespace weir::base
