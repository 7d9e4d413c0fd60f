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

}  // namespace
}  // namespace weir::models
