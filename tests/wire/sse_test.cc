#include "wire/sse.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::wire {
namespace {

// The parser of the standard (section 9.2.6), for data and id only.
struct Parsed {
  std::string data, event;
  friend bool operator==(const Parsed&, const Parsed&) = default;
};
std::vector<Parsed> parse(std::string_view stream) {
  std::vector<Parsed> events;
  Parsed now;
  bool any = false;
  while (!stream.empty()) {
    size_t end = stream.find_first_of("\r\n");
    std::string_view line = stream.substr(0, end);
    stream.remove_prefix(end + (stream.substr(end, 2) == "\r\n" ? 2 : 1));
    if (line.empty()) {
      if (any) {
        now.data.pop_back();
        events.push_back(now);
      }
      now = {}, any = false;
    } else if (line.starts_with("data: ")) {
      now.data.append(line.substr(6)).append("\n"), any = true;
    } else if (line.starts_with("event: ")) {
      now.event = line.substr(7);
    }
  }
  return events;
}

TEST(Sse, AnEventIsDataAndABlankLine) {
  std::string out;
  append_sse(out, "{\"a\":1}");
  EXPECT_EQ(out, "data: {\"a\":1}\n\n");
}

TEST(Sse, NameAndIdGoBeforeTheData) {
  std::string out;
  append_sse(out, "x", "done", "7");
  EXPECT_EQ(out, "event: done\nid: 7\ndata: x\n\n");
}

TEST(Sse, NoTextCanForgeAnEvent) {
  for (std::string_view text :
       {"", "a", "a\nb", "a\n\ndata: forged\n\n", "event: x\r\ndata: y\r\n\r\n", "\n", "\n\n", "a\n"}) {
    std::string out;
    append_sse(out, text);
    append_sse(out, "next");
    auto events = parse(out);
    ASSERT_EQ(events.size(), 2u) << text;
    EXPECT_EQ(events[1], (Parsed{"next", ""}));
    EXPECT_EQ(events[0].event, "");
    std::string expected;  // all line breaks are one
    for (size_t i = 0; i < text.size(); ++i)
      if (text[i] != '\r') expected += text[i];
    EXPECT_EQ(events[0].data, expected);
  }
}

TEST(Sse, ALoneCarriageReturnIsALineBreakToo) {
  std::string out;
  append_sse(out, "a\rdata: b");
  EXPECT_EQ(out, "data: a\ndata: data: b\n\n");
}

TEST(Sse, NameIdAndCommentStayOnOneLine) {
  std::string out;
  append_sse(out, "x", "a\nb", "1\r2");
  EXPECT_EQ(out, "event: a b\nid: 1 2\ndata: x\n\n");
  out.clear();
  append_sse_comment(out);
  append_sse_comment(out, "a\nb");
  EXPECT_EQ(out, ": ping\n\n: a b\n\n");
}

}  // namespace
}  // namespace weir::wire
