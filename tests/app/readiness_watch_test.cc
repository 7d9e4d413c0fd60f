#include "app/readiness_watch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/fake_env.h"
#include "bus/load_notes.h"

namespace weir::app {
namespace {

struct FakeProbe final : msg::ReadinessProbe {
  void ask(Done done) override { asked.push_back(std::move(done)); }
  void answer(const std::string& why_not) {
    for (const auto& done : std::exchange(asked, {})) done(why_not);
  }
  bool busy() const override { return works; }
  std::vector<Done> asked;
  bool works = false;
};

struct AskedModel final : msg::Inbox, bus::HasLoadNotes {
  void put(msg::Call*) override {}
  void poke() override {}
};

struct ReadinessWatchTest : testing::Test {
  void add(const std::string& name, const std::string& version, std::shared_ptr<msg::ReadinessProbe> probe) {
    auto inbox = std::make_unique<AskedModel>();
    inbox->set_load_notes({{}, std::move(probe)});
    auto served = std::make_shared<bus::Served>();
    served->inbox = std::move(inbox);
    catalog.models[name].versions[version] = served;
  }
  void work() {
    for (auto& piece : std::exchange(posted, {})) piece();
  }

  base::FakeEnv env;
  bus::Catalog catalog;
  std::vector<std::function<void()>> posted;
  std::shared_ptr<const bus::SaidReadiness> said;
  std::shared_ptr<FakeProbe> probe = std::make_shared<FakeProbe>();
  ReadinessWatch watch{env, [this](std::function<void()> work) { posted.push_back(std::move(work)); },
                       [this](auto now) { said = std::move(now); }};
};

TEST_F(ReadinessWatchTest, WithoutModelsThatAreAskedThereIsNothingToDo) {
  add("plain", "1", nullptr);
  watch.look_at(catalog);
  EXPECT_EQ(env.armed(), 0u);
  EXPECT_FALSE(said);
}

TEST_F(ReadinessWatchTest, ModelsAreAskedOnceASecondAndWhatTheySayIsPassedOn) {
  add("m", "1", probe);
  watch.look_at(catalog);
  EXPECT_TRUE(said->empty());
  probe->answer("cold");
  work();
  EXPECT_EQ(said->at("m").at("1"), "cold");
  EXPECT_TRUE(probe->asked.empty());
  env.advance(ReadinessWatch::kEvery);
  ASSERT_EQ(probe->asked.size(), 1u);
  const auto before = said;
  probe->answer("cold");
  work();
  EXPECT_EQ(said, before) << "nothing new";
  env.advance(ReadinessWatch::kEvery);
  probe->answer("");
  work();
  EXPECT_EQ(said->at("m").at("1"), "");
  catalog.models.clear();
  watch.look_at(catalog);
  EXPECT_TRUE(said->empty());
  EXPECT_EQ(env.armed(), 0u);
}

TEST_F(ReadinessWatchTest, ASilentModelIsNotReadyAndIsAskedOnce) {
  add("m", "1", probe);
  watch.look_at(catalog);
  env.advance(bus::ModelReadiness::kPatience);
  EXPECT_EQ(said->at("m").at("1"), "it did not answer within 5 s");
  env.advance(20 * ReadinessWatch::kEvery);
  EXPECT_EQ(probe->asked.size(), 1u);
  probe->answer("");
  work();
  env.advance(ReadinessWatch::kEvery);
  probe->answer("");
  work();
  EXPECT_EQ(said->at("m").at("1"), "");
}

TEST_F(ReadinessWatchTest, ASilentModelThatWorksIsWhatItSaidLastForAMinute) {
  add("m", "1", probe);
  watch.look_at(catalog);
  probe->works = true;
  env.advance(bus::ModelReadiness::kPatience);
  EXPECT_EQ(said->at("m").at("1"), "it did not answer within 5 s") << "it has said nothing yet";
  probe->answer("");
  work();
  for (const char* says : {"", "cold"}) {
    env.advance(ReadinessWatch::kEvery);
    probe->answer(says);
    work();
    env.advance(2 * bus::ModelReadiness::kPatience);
    EXPECT_EQ(said->at("m").at("1"), says);
    probe->answer(says);
    work();
  }
  env.advance(bus::ModelReadiness::kMostBusy + 2 * bus::ModelReadiness::kPatience);
  EXPECT_EQ(said->at("m").at("1"), "it did not answer within 5 s");
}

TEST_F(ReadinessWatchTest, ASilentModelThatDoesNotWorkIsNotReadyWhateverItSaidBefore) {
  add("m", "1", probe);
  watch.look_at(catalog);
  probe->answer("");
  work();
  EXPECT_EQ(said->at("m").at("1"), "");
  env.advance(ReadinessWatch::kEvery);
  env.advance(bus::ModelReadiness::kPatience);
  EXPECT_EQ(said->at("m").at("1"), "it did not answer within 5 s");
}

TEST_F(ReadinessWatchTest, ANewVersionIsWhatTheFormerOneWasUntilItSaysSomething) {
  add("m", "1", probe);
  watch.look_at(catalog);
  probe->answer("");
  work();
  const auto next = std::make_shared<FakeProbe>(), other = std::make_shared<FakeProbe>();
  catalog.models.clear();
  add("m", "2", next);
  add("other", "1", other);
  watch.look_at(catalog);
  EXPECT_EQ(said->at("m").at("2"), "");
  EXPECT_FALSE(said->contains("other"));
  next->answer("cold");
  work();
  EXPECT_EQ(said->at("m").at("2"), "cold");
  probe->answer("of a version that is gone");
  work();
  EXPECT_FALSE(said->at("m").contains("1"));
}

}  // namespace
}  // namespace weir::app
