#include "wire/text.h"

#include <gtest/gtest.h>

#include <string>

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

TEST(Text, ListsAreCutAtCommas) {
  std::string seen;
  for_each_element(" a,, b ;q=1 ,\tc", [&](std::string_view e) { seen += "[" + std::string(e) + "]"; });
  EXPECT_EQ(seen, "[a][b ;q=1][c]");
  EXPECT_TRUE(has_element("keep-alive, Close", "close"));
  EXPECT_FALSE(has_element("closed", "close"));
}

}  // namespace
}  // namespace weir::wire
