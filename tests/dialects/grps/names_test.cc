// Names of models and tensors, of any length.
#include <gtest/gtest.h>

#include "bench.h"
#include "dialects/grps/mapping.h"

namespace weir::grps {
namespace {

// Returns the result of find_model() for a name, in words.
std::string says(const Bench& bench, std::string_view name) {
  auto found = find_model(bench.bus.catalog(), name);
  return found ? (*found)->spec.name + "/" + (*found)->spec.version : found.error().text;
}

TEST(GrpsNames, ZeroesBehindAVersionMeanNothing) {
  Bench bench;
  for (auto name : {"add-2", "add-2.0", "add-2.0.0", "add-2.0.0.0.0"}) EXPECT_EQ(says(bench, name), "add/2") << name;
  EXPECT_EQ(says(bench, "my-text-1.0"), "my-text/1");
  EXPECT_EQ(says(bench, "add-3.0.0"), "Request for unknown model: 'add' version 3.0.0 is not found; it serves 1, 2")
      << "the version as asked";
  EXPECT_EQ(says(bench, "add-2.0.1"), "Request for unknown model: 'add' version 2.0.1 is not found; it serves 1, 2");
  EXPECT_EQ(says(bench, "add-.0.0"), "Request for unknown model: 'add' version .0.0 is not found; it serves 1, 2");
  EXPECT_EQ(says(bench, "add-"), "add/2") << "no version";
  EXPECT_EQ(says(bench, "broken-1"), "model 'broken' version 1 is not ready: the file is cut") << "not: unknown";
  EXPECT_NE(says(bench, "my-tex").find("did you mean 'my-text'?"), std::string::npos);
}

TEST(GrpsNames, AFurtherNameHasVersionsToo) {
  Bench bench;
  auto catalog = std::make_shared<bus::Catalog>(bench.bus.catalog());
  catalog->names = {{"Org/add-v", "add"}};
  bench.bus.publish(catalog);
  EXPECT_EQ(says(bench, "Org/add-v"), "add/2");
  EXPECT_EQ(says(bench, "Org/add-v-1.0"), "add/1");
  EXPECT_EQ(says(bench, "Org/add-v-3"), "Request for unknown model: 'add' version 3 is not found; it serves 1, 2");
}

TEST(GrpsNames, ALongNameIsRefusedBeforeAnybodyLooksForIt) {
  Bench bench;
  std::string many = "add-2";
  for (int i = 0; i < 1'000'000; ++i) many += ".0";
  EXPECT_EQ(says(bench, many), "a model is named by at most 256 bytes, not 2000005");
  auto a = bench.predict(R"({"model":")" + many + R"(","str_data":"x"})");
  EXPECT_EQ(a.status, 400);
  EXPECT_LT(a.body.size(), 500u);
  EXPECT_EQ(bench.rest("POST", "/grps/v1/metadata/model", R"({"str_data":")" + many.substr(0, 30'000) + "\"}").status,
            400);
  EXPECT_EQ(says(bench, many.substr(0, 255)), "add/2");
}

TEST(GrpsNames, ATensorsNameIsShort) {
  Bench bench;
  auto named = [](size_t n) {
    return R"({"gtensors":{"tensors":[{"name":")" + std::string(n, 'n') +
           R"(","dtype":"DT_INT32","shape":[1],"flat_int32":[1]}]}})";
  };
  EXPECT_EQ(bench.predict(named(1024), "?model=any").status, 200);
  auto a = bench.predict(named(1025), "?model=any");
  EXPECT_EQ(a.status, 400);
  EXPECT_NE(a.body.find("a tensor's name has at most 1024 bytes, not 1025"), std::string::npos) << a.body;
}

}  // namespace
}  // namespace weir::grps
