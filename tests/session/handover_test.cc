// The text that is kept of a session that goes where its client is.
#include "session/handover.h"

#include <gtest/gtest.h>

namespace weir::session {
namespace {

using base::Code;

TEST(Handover, AStateIsItsOwnersAlone) {
  const std::string text = write_held("key Ann\n%", "state\nof two lines");
  auto hers = read_held(text, "key Ann\n%");
  ASSERT_TRUE(hers) << hers.error().text;
  EXPECT_EQ(*hers, "state\nof two lines");
  for (const char* other : {"key Bob", "key Ann", ""})
    EXPECT_EQ(read_held(text, other).error().text, "there is no such session") << other;
  EXPECT_EQ(read_held(text, "key Bob").error().code, Code::kNotFound);
}

TEST(Handover, WhatIsDamagedIsRefused) {
  for (const char* bad : {"", "weir-tokens 1\n", "weir-held 1\n", "weir-held 1\nwhose ", "weir-held 1\nwhose %z\nx",
                          "weir-held 1\nwhose Ann"})
    EXPECT_EQ(read_held(bad, "Ann").error().code, Code::kDataLoss) << bad;
  EXPECT_EQ(read_held("weir-held 1\nwhose " + std::string(5000, 'a') + "\n", "Ann").error().code, Code::kDataLoss);
}

}  // namespace
}  // namespace weir::session
