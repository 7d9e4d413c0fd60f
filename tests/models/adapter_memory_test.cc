// Adapters and the memory that models share.
#include "loaded_adapters_fixture.h"

namespace weir::models {
namespace {

TEST_F(LoadedAdapterModels, ARequestForOneBringsItsModelIntoMemory) {
  open_with_another();
  EXPECT_EQ(load("sql", "sql"), "no model here takes adapters: those that make tokens on the CPU do")
      << "none is in memory";
  EXPECT_EQ(load("sql", "sql", {{"base_model_name", "m"}}), "");
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(ask("sql"), "+0");
    EXPECT_EQ(ask("other"), "7");
  }
}

TEST_F(LoadedAdapterModels, ARequestThatHasWaitedForItsModelKeepsTheAdapter) {
  open_with_another();
  ASSERT_EQ(load("sql", "sql", {{"base_model_name", "m"}}), "");
  ASSERT_EQ(ask("other"), "7");
  auto waits = served("sql");
  waits->in_flight[0].calls = 1;
  SaysNumber::held = nullptr, SaysNumber::holds = true;
  caller.call(*waits);
  ASSERT_TRUE(soon([&] { return SaysNumber::held.load() != nullptr; })) << "it came with the model";
  ASSERT_TRUE(repo->unload("sql").ok());
  auto& loader = *served("m")->adapters;
  const uint32_t number = SaysNumber::held.load()->adapter;
  EXPECT_FALSE(soon([&] { return !loader.has(number); }, 40)) << "a Call is for it";
  SaysNumber::holds = false;
  bus::post_one(SaysNumber::held, {msg::Failed{base::invalid("done")}});
  waits->in_flight[0].calls = 0, waits.reset();
  EXPECT_TRUE(soon([&] { return !loader.has(number); }));
}

TEST_F(LoadedAdapterModels, OneThatIsUnloadedTakesMemoryUntilItsRequestsHaveEnded) {
  disk.write("small/1/model.onnx", "5");
  disk.write("small/model.yaml", "memory: 35\n");
  open_with_another();
  ASSERT_EQ(load("sql", "sql", {{"base_model_name", "m"}}), "");
  auto inside = served("sql");
  inside->in_flight[0].calls = 1;
  ASSERT_TRUE(repo->unload("sql").ok());
  auto* call = caller.call(*served("small"));
  EXPECT_FALSE(soon([&] { return caller.heard_of(call); }, 40)) << "60 and 10 and 35 are more than there is";
  inside->in_flight[0].calls = 0, inside.reset();
  EXPECT_EQ(caller.answer(call), "5");
}

// The adapter's bytes come free whatever becomes of its model: the load is late, and not refused.
TEST_F(LoadedAdapterModels, AModelIsLoadedAnewBesideAnUnloadedOne) {
  open_with_another();
  ASSERT_EQ(load("sql", "sql", {{"base_model_name", "m"}}), "");
  auto inside = served("sql");
  inside->in_flight[0].calls = 1;
  ASSERT_TRUE(repo->unload("sql").ok());
  disk.write("m/model.yaml", "engine: tokens\nmemory: 95\n");
  EXPECT_EQ(repo->load("m").text, "");
  EXPECT_EQ(ask("m"), "0");
  auto* other = caller.call(*served("other"));
  EXPECT_FALSE(soon([&] { return caller.heard_of(other); }, 40)) << "the former m is there, too";
  auto* call = caller.call(*served("m"));
  EXPECT_FALSE(soon([&] { return caller.heard_of(call); }, 40)) << "it has left for the other";
  inside->in_flight[0].calls = 0, inside.reset();
  EXPECT_EQ(caller.answer(other), "7");
  EXPECT_EQ(caller.answer(call), "0");
}

}  // namespace
}  // namespace weir::models
