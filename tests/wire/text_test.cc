#include "wire/text.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "wire/websocket.h"

namespace weir::wire {
namespace {

TEST(Text, ControlCharactersAreFoundAtEveryPlaceAndNothingElseIs) {
  for (size_t size = 0; size < 20; ++size)
    for (size_t at = 0; at < size; ++at)
      for (int c = 0; c < 256; ++c) {
        std::string text(size, '~');
        text[at] = char(c);
        ASSERT_EQ(has_control(text), c < 0x20 || c == 0x7f) << c << " at " << at << " of " << size;
      }
  EXPECT_FALSE(has_control(std::string(64, '\xff')));
  EXPECT_FALSE(has_control(std::string(64, '\x80')));
  EXPECT_FALSE(has_control(std::string(64, ' ')));
}

TEST(Text, LettersBecomeSmallAtEveryPlaceAndNothingElseChanges) {
  for (size_t size = 1; size < 20; ++size)
    for (size_t at = 0; at < size; ++at)
      for (int c = 0; c < 256; ++c) {
        std::string text(size, 'Z'), expected(size, 'z');
        text[at] = char(c);
        expected[at] = lower(char(c));
        make_lower(text.data(), size);
        ASSERT_EQ(text, expected) << c << " at " << at << " of " << size;
      }
}

TEST(Text, JsonTextEscapesWhatItMustAndReplacesWhatIsNoUtf8) {
  std::string out;
  append_json_text(out, "a\"b\\c\n\x7f\xc3\xa9\xff\xe2\x82\xf0\x9f\x98\x80\xed\xa0\x80");
  EXPECT_EQ(out,
            "a\\\"b\\\\c\\u000a\\u007f\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xf0\x9f\x98\x80"
            "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(error_json("x"), "{\"error\":\"x\"}");
}

// One character as JSON, or the replacement for each byte that begins none.
TEST(Text, JsonTextKeepsExactlyTheCharactersOfUtf8) {
  const uint8_t edges[]{0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0};
  for (int first = 0x80; first < 256; ++first)
    for (int second = 0; second < 256; ++second)
      for (uint8_t third : edges)
        for (uint8_t fourth : {0x41, 0x80, 0xbf, 0xc0}) {
          const std::string text{char(first), char(second), char(third), char(fourth)};
          for (size_t n = 1; n <= 4; ++n) {
            std::string out;
            append_json_text(out, text.substr(0, n));
            Utf8Check check;
            const bool whole = check.push(text.substr(0, n)) && check.whole();
            ASSERT_EQ(out.find("\xef\xbf\xbd") == out.npos, whole) << first << ' ' << second << ' ' << n;
          }
        }
  std::string out;
  for (int c = 0; c < 0x20; ++c) append_json_text(out, std::string(1, char(c)));
  EXPECT_TRUE(out.starts_with("\\u0000\\u0001")) << out;
  EXPECT_TRUE(out.ends_with("\\u001e\\u001f")) << out;
  out.clear();
  append_json_text(out, " ~/");
  EXPECT_EQ(out, " ~/");
}

TEST(Text, EachStatusHasItsPhrase) {
  const std::map<int, std::string_view> phrases{{100, "Continue"},
                                                {101, "Switching Protocols"},
                                                {200, "OK"},
                                                {201, "Created"},
                                                {202, "Accepted"},
                                                {204, "No Content"},
                                                {206, "Partial Content"},
                                                {301, "Moved Permanently"},
                                                {302, "Found"},
                                                {303, "See Other"},
                                                {304, "Not Modified"},
                                                {307, "Temporary Redirect"},
                                                {308, "Permanent Redirect"},
                                                {400, "Bad Request"},
                                                {401, "Unauthorized"},
                                                {403, "Forbidden"},
                                                {404, "Not Found"},
                                                {405, "Method Not Allowed"},
                                                {406, "Not Acceptable"},
                                                {408, "Request Timeout"},
                                                {409, "Conflict"},
                                                {410, "Gone"},
                                                {411, "Length Required"},
                                                {412, "Precondition Failed"},
                                                {413, "Content Too Large"},
                                                {414, "URI Too Long"},
                                                {415, "Unsupported Media Type"},
                                                {416, "Range Not Satisfiable"},
                                                {417, "Expectation Failed"},
                                                {421, "Misdirected Request"},
                                                {422, "Unprocessable Content"},
                                                {426, "Upgrade Required"},
                                                {429, "Too Many Requests"},
                                                {431, "Request Header Fields Too Large"},
                                                {500, "Internal Server Error"},
                                                {501, "Not Implemented"},
                                                {502, "Bad Gateway"},
                                                {503, "Service Unavailable"},
                                                {504, "Gateway Timeout"},
                                                {505, "HTTP Version Not Supported"}};
  for (int status = 99; status < 600; ++status) {
    auto known = phrases.find(status);
    EXPECT_EQ(reason_phrase(status), known == phrases.end() ? "" : known->second) << status;
  }
}

TEST(Text, ListsAreCutAtCommas) {
  std::string seen;
  for_each_element(" a,, b ;q=1 ,\tc", [&](std::string_view e) { seen += "[" + std::string(e) + "]"; });
  EXPECT_EQ(seen, "[a][b ;q=1][c]");
  EXPECT_TRUE(has_element("keep-alive, Close", "close"));
  EXPECT_FALSE(has_element("closed", "close"));
}

}  // namespace
}  // namespace weir::wire
