#include "wire/accept.h"

#include <gtest/gtest.h>

namespace weir::wire {
namespace {

TEST(Accept, ATypeCountsWhereItIsNamedWithAWeight) {
  EXPECT_TRUE(accepts("text/html", "text/html"));
  EXPECT_TRUE(accepts("application/json;q=0.1, Text/HTML;q=0.9", "text/html"));
  EXPECT_TRUE(accepts("text/event-stream", "text/event-stream"));
  for (const char* accept : {"", "*/*", "text/*", "application/json", "text/html;q=0", "text/html;q=0.000"})
    EXPECT_FALSE(accepts(accept, "text/html")) << accept;
}

}  // namespace
}  // namespace weir::wire
