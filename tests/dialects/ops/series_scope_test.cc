#include "dialects/ops/series_scope.h"

#include <gtest/gtest.h>

namespace weir::ops {
namespace {

const base::ModelScope kScope({"chat*", "a\"b\\c\nd"});

TEST(SeriesScope, SeriesOfNoModelAreSeenByAll) {
  for (const char* series : {"weir_ready", "weir_ready 1", "weir_x{protocol=\"oip\",code=\"OK\"} 3", "weir_x{} 1",
                             "weir_x 1 # {trace_id=\"model=\"} 1", ""})
    EXPECT_TRUE(in_scope(series, kScope)) << series;
}

TEST(SeriesScope, OthersModelsAreNot) {
  for (const char* label : {"model", "model_name"}) {
    const std::string begin = std::string("weir_x{le=\"}\",") + label + "=\"";
    EXPECT_TRUE(in_scope(begin + "chat-2\",version=\"1\"}", kScope)) << label;
    EXPECT_TRUE(in_scope(begin + R"(a\"b\\c\nd"})", kScope)) << label;
    EXPECT_FALSE(in_scope(begin + "digits\",version=\"1\"}", kScope)) << label;
    EXPECT_FALSE(in_scope(begin + R"(a\"b"})", kScope)) << label;
    EXPECT_FALSE(in_scope(begin + "digits", kScope)) << "it does not end";
  }
  EXPECT_FALSE(in_scope(R"(weir_x{a="model=\"chat\"",model="digits"} 1)", kScope));
}

TEST(SeriesScope, SumsOverAllModelsAreNot) {
  EXPECT_FALSE(in_scope("llamacpp:tokens_predicted_total 14", kScope));
  EXPECT_EQ(lines_in_scope("weir_y 3\nllamacpp:requests_processing 2\n", kScope), "weir_y 3\n");
}

TEST(SeriesScope, ATextKeepsItsCommentsAndItsForm) {
  const std::string text =
      "# HELP weir_x X of {model=\"digits\"}\n# TYPE weir_x counter\nweir_x{model=\"chat\"} 1\n"
      "weir_x{model=\"digits\"} 2\nweir_y 3\n# EOF\n";
  std::string wanted = text;
  wanted.erase(wanted.find("weir_x{model=\"digits\"} 2\n"), 25);
  EXPECT_EQ(lines_in_scope(text, kScope), wanted);
  EXPECT_EQ(lines_in_scope("weir_x{model=\"digits\"} 2", kScope), "");
  EXPECT_EQ(lines_in_scope("", kScope), "");
}

}  // namespace
}  // namespace weir::ops
