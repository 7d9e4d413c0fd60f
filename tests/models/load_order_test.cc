#include "models/load_order.h"

#include <gtest/gtest.h>

namespace weir::models {
namespace {

using Names = std::vector<std::string>;
using Graph = std::map<std::string, Names>;

LoadOrder order_of(const std::set<std::string>& wanted, const Graph& graph) {
  return {wanted, [&](const std::string& name) {
            auto found = graph.find(name);
            return found == graph.end() ? Names() : found->second;
          }};
}

TEST(LoadOrder, APipelineWaitsForAllOfItsNodesAndForNothingElse) {
  auto order = order_of({"outer", "x"}, {{"outer", {"inner", "b"}}, {"inner", {"a", "b", "a"}}});
  EXPECT_EQ(order.names(), (Names{"b", "a", "inner", "outer", "x"}));
  EXPECT_EQ(order.first(), (Names{"b", "a", "x"}));
  EXPECT_EQ(order.ended("b"), Names());
  EXPECT_EQ(order.ended("x"), Names());
  EXPECT_EQ(order.ended("a"), (Names{"inner"}));
  EXPECT_EQ(order.ended("inner"), (Names{"outer"}));
}

TEST(LoadOrder, ARingBeginsSomewhere) {
  auto order = order_of({"a", "b"}, {{"a", {"b"}}, {"b", {"a"}}});
  EXPECT_EQ(order.names(), (Names{"b", "a"}));
  EXPECT_EQ(order.first(), (Names{"b"}));
  EXPECT_EQ(order.ended("b"), (Names{"a"}));
}

}  // namespace
}  // namespace weir::models
