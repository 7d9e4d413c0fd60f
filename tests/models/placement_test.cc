#include "models/placement.h"

#include <gtest/gtest.h>

#include "models/model_config.h"
#include "models/model_yaml.h"

namespace weir::models {
namespace {

using Kind = InstanceGroup::Kind;
using Places = std::vector<std::string>;

DeviceSupply supply(uint32_t gpus, DeviceSupply::Missing missing = DeviceSupply::Missing::kError) {
  return {gpus, {"identity"}, missing};
}

TEST(Placement, CountIsPerDevice) {
  EXPECT_EQ(*place({{Kind::kDevices, 2, {"cuda:0", "cuda:1"}}}, "identity", supply(2)),
            (Places{"cuda:0", "cuda:0", "cuda:1", "cuda:1"}));
  EXPECT_EQ(*place({{Kind::kDevices, 1, {}}, {Kind::kCpu, 1, {}}}, "identity", supply(3)),
            (Places{"cuda:0", "cuda:1", "cuda:2", "cpu"}));
}

TEST(Placement, ADeviceThatIsNotThereIsAnError) {
  auto places = place({{Kind::kDevices, 1, {"cuda:0", "cuda:2"}}}, "identity", supply(2));
  ASSERT_FALSE(places);
  EXPECT_EQ(places.error().code, base::Code::kFailedPrecondition);
  EXPECT_EQ(places.error().text,
            "instances on cuda:2 are asked for, but there is only cuda:0 to cuda:1 here; ask for KIND_AUTO, or set "
            "models.missing_devices: cpu");
  EXPECT_NE(place({{Kind::kDevices, 1, {}}}, "identity", supply(0)).error().text.find("there is no GPU here"),
            std::string::npos);
}

TEST(Placement, AnEngineOfTheCpuSaysSo) {
  auto places = place({{Kind::kDevices, 1, {"cuda:0"}}}, "onnx", supply(8));
  ASSERT_FALSE(places);
  EXPECT_NE(places.error().text.find("the engine 'onnx' computes on the CPU alone"), std::string::npos);
}

TEST(Placement, AServerMayMakeDoWithTheCpu) {
  auto cpu = DeviceSupply::Missing::kCpu;
  EXPECT_EQ(*place({{Kind::kDevices, 2, {"cuda:0"}}}, "onnx", supply(1, cpu)), (Places{"cpu", "cpu"}));
  EXPECT_EQ(*place({{Kind::kDevices, 1, {}}}, "identity", supply(0, cpu)), Places{"cpu"});
}

TEST(Placement, AutoTakesTheGpusWhereTheyAreThere) {
  EXPECT_EQ(*place({{Kind::kAuto, 1, {}}}, "identity", supply(2)), (Places{"cuda:0", "cuda:1"}));
  EXPECT_EQ(*place({{Kind::kAuto, 1, {"cuda:1"}}}, "identity", supply(1)), Places{""});
  EXPECT_EQ(*place({{Kind::kAuto, 3, {}}}, "onnx", supply(2)), (Places{"", "", ""}));
  EXPECT_EQ(*place({{Kind::kEngine, 1, {}}}, "identity", supply(2)), Places{""});
}

TEST(Placement, DevicesThatAreNoGpusAreTheEnginesToFind) {
  EXPECT_EQ(*place({{Kind::kDevices, 1, {"host", "fake:1"}}}, "identity", supply(0)), (Places{"host", "fake:1"}));
}

TEST(Placement, IsReadFromBothForms) {
  auto config =
      parse_pbtxt("instance_group [ { kind: KIND_GPU gpus: [ 0, 1 ] count: 2 }, { kind: KIND_CPU } ]", "p", {});
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->places("identity", supply(2))->size(), 5u);
  EXPECT_FALSE(config->places("onnx", supply(2)));
  EXPECT_FALSE(parse_pbtxt("instance_group [ { kind: KIND_GPU gpus: [ -1 ] } ]", "p", {}));

  auto yaml = [](const char* text) { return parse_model_yaml(text, "m/model.yaml", {}); };
  EXPECT_EQ(*yaml("devices: [cuda:0, cuda:1]\ninstances: 2")->places("identity", supply(2)),
            (Places{"cuda:0", "cuda:0", "cuda:1", "cuda:1"}));
  EXPECT_EQ(*yaml("devices: all")->places("identity", supply(2)), (Places{"cuda:0", "cuda:1"}));
  EXPECT_EQ(*yaml("devices: cpu")->places("identity", supply(2)), Places{"cpu"});
  EXPECT_EQ(*yaml("devices: auto\nparameters: {device: host}")->places("identity", supply(2)), Places{""});
  EXPECT_EQ(*yaml("instances: 3")->places("onnx", supply(2)), (Places{"", "", ""}));
  EXPECT_EQ(yaml("devices: gpu").error().text,
            "m/model.yaml:1:10: expected a list of devices like [cuda:0, cuda:1], or all, auto or cpu");
  EXPECT_FALSE(yaml("devices: [cuda:0, cpu]"));
  EXPECT_FALSE(yaml("devices: all\ninstances: 60")->places("identity", supply(2)));
}

}  // namespace
}  // namespace weir::models
