// A request to an origin says where it comes from; an origin that is a weir counts it.
#include "engines/forward/passed_on.h"

#include <gtest/gtest.h>

#include "wire/hops.h"

namespace weir::forward {
namespace {

wire::Fields passed(uint32_t hops, const char* traceparent = "") {
  msg::Call call;
  call.tenant = 7;
  if (hops > 0 || *traceparent)
    call.trace = std::make_shared<msg::TraceFields>(msg::TraceFields{traceparent, {}, hops});
  wire::Fields out;
  pass_on(call, out);
  return out;
}

TEST(PassedOn, EachWeirCountsOneMore) {
  EXPECT_EQ(wire::hops_of(wire::Fields()), 0u);
  EXPECT_FALSE(passed(0).has(wire::kHops)) << "it costs nothing where there is one alone";
  for (uint32_t hops = 0; hops < wire::kMostHops; ++hops) EXPECT_EQ(wire::hops_of(passed(hops)), hops + 1);
  EXPECT_EQ(wire::hops_of(passed(wire::kMostHops)), wire::kMostHops);
}

// Those of a model to others, and warm-ups.
TEST(PassedOn, RequestsThatAreNobodysAreCountedToo) {
  msg::Call call;
  for (uint32_t hops = 0; hops < wire::kMostHops; ++hops) {
    if (hops > 0) call.trace = std::make_shared<msg::TraceFields>(msg::TraceFields{{}, {}, hops});
    wire::Fields out;
    pass_on(call, out);
    EXPECT_EQ(wire::hops_of(out), hops + 1);
  }
}

TEST(PassedOn, ARequestWithoutTraceHasNone) {
  EXPECT_FALSE(passed(1).has("traceparent"));
  EXPECT_EQ(passed(1, "00-a-b-01").find("traceparent"), "00-a-b-01");
}

TEST(PassedOn, NonsenseIsACountAllTheSame) {
  const std::pair<const char*, uint32_t> said[] = {{"", 1},  {"x", 1}, {"-1", 1},         {"3x", 4},
                                                   {"7", 8}, {"8", 8}, {"4294967295", 8}, {"99999999999999999999", 8}};
  for (const auto& [text, hops] : said) {
    wire::Fields fields;
    fields.add(wire::kTenantThere, "0");
    fields.add(wire::kHops, text);
    EXPECT_EQ(wire::hops_of(fields), hops) << text;
  }
}

}  // namespace
}  // namespace weir::forward
