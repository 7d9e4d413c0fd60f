// Tensors without elements whose dimensions are large all the same.
#include <gtest/gtest.h>

#include "bench.h"

namespace weir::grps {
namespace {

std::string gtensor(const std::string& shape) {
  return R"({"gtensors":{"tensors":[{"name":"a","dtype":"DT_FLOAT32","shape":)" + shape + "}]}}";
}

TEST(GrpsEmpty, AnEmptyTensorsDimensionsAreNotWrittenOutByTheBillion) {
  Bench bench;
  auto a = bench.predict(gtensor("[4294967295,0]"), "?model=any&return-ndarray=true");
  EXPECT_EQ(a.status, 400);
  EXPECT_NE(a.body.find("'a': shape [4294967295,0] has no elements, and dimensions that multiply to more than"),
            std::string::npos)
      << a.body;
  EXPECT_EQ(bench.predict(gtensor("[4294967295,0]"), "?model=any").status, 400) << "nor is an engine to loop over it";
  EXPECT_EQ(bench.predict(gtensor("[0,4294967295]"), "?model=any").status, 400) << "nor to reduce the empty one";
  EXPECT_EQ(bench.predict(gtensor("[65536,65536,0,65536]"), "?model=any").status, 400);
  EXPECT_TRUE(bench.models["any"].seen.empty());
}

TEST(GrpsEmpty, AsNestedNumbersItIsAFewThousandEmptyArraysAtMost) {
  Bench bench;
  auto a = bench.predict(gtensor("[65537,0]"), "?model=any&return-ndarray=true");
  EXPECT_EQ(a.status, 400);
  EXPECT_NE(a.body.find("output 'a': shape [65537,0] has no elements, and would be more than 65536 empty arrays"),
            std::string::npos)
      << a.body;
  EXPECT_EQ(bench.predict(gtensor("[65537,0]"), "?model=any").status, 200) << "flat, it is nothing at all";
  a = bench.predict(gtensor("[2,0,65537]"), "?model=any&return-ndarray=true");
  EXPECT_NE(a.body.find("\"ndarray\": [[],[]]"), std::string::npos) << a.body;
  EXPECT_EQ(bench.predict(gtensor("[65536,0]"), "?model=any&return-ndarray=true").status, 200);
}

TEST(GrpsEmpty, RoutesOfTheConfigurationWriteNoMoreOfIt) {
  RouteSpec route;
  route.path = "/empty";
  route.model = "digits";
  route.inputs = {{"image", "body:/x"}};
  Options options;
  options.routes.push_back(route);
  Bench bench(std::move(options));
  bench.models["digits"].script.push_back({msg::Outputs{support::parse_tensors("p FP32 [65537,0] []"), {}, true}});
  auto a = bench.rest("POST", "/empty", R"({"x":[1,2]})");
  EXPECT_EQ(a.status, 400);
  EXPECT_NE(a.body.find("would be more than 65536 empty arrays"), std::string::npos) << a.body;
}

}  // namespace
}  // namespace weir::grps
