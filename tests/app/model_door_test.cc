// The way from models with code of their own to other models.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "app/engines.h"
#include "bus/catalog.h"

namespace weir::app {
namespace {

std::shared_ptr<bus::Served> served(const std::string& model) {
  auto out = std::make_shared<bus::Served>();
  out->spec.name = model, out->spec.version = "1";
  return out;
}

// The model that is asked may need the memory of one that is idle, and that one leaves once nobody keeps it.
TEST(ModelDoor, AModelThatAsksAnotherKeepsThatOneAlone) {
  auto asked = served("asked"), beside = served("beside");
  auto catalog = std::make_shared<bus::Catalog>();
  for (const auto& each : {asked, beside}) {
    auto& model = catalog->models[each->spec.name];
    model.versions["1"] = each, model.preferred = each.get();
  }
  models::ModelWaits waits;
  auto door = std::make_shared<ModelDoor>(nullptr, waits);
  auto find = door->world([&] { return catalog; }).find("asking");
  auto target = find("asked", "");
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->spec, &asked->spec);
  EXPECT_EQ(waits.now(), (models::ModelWaits::Waits{{"asking", "asked"}}));
  catalog = std::make_shared<bus::Catalog>();
  EXPECT_EQ(beside.use_count(), 1);
  EXPECT_EQ(asked.use_count(), 2);
  target->keeps = nullptr;
  EXPECT_EQ(asked.use_count(), 1);
  EXPECT_TRUE(waits.now().empty());
}

}  // namespace
}  // namespace weir::app
