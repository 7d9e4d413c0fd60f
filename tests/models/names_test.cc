// Further names of models (`names:` of model.yaml).
#include <chrono>
#include <sstream>
#include <thread>

#include "base/log.h"
#include "held_loads.h"
#include "models/further_names.h"
#include "models/model_yaml.h"
#include "repository_fixture.h"

namespace weir::models {
namespace {

using NameMap = FurtherNames::Owners;
using base::Code;

NameMap names_of(AnyRepo& repo) { return repo.now()->names; }

// How looking for a model by that name ends.
Code code_of(AnyRepo& repo, std::string_view name) {
  auto found = repo.now()->find(name, "");
  return found ? Code::kOk : found.error().code;
}

// The lines of warnings about names while it lives.
class NameWarnings {
 public:
  NameWarnings() {
    EXPECT_TRUE(base::log::flush(std::chrono::seconds(10)));
    testing::internal::CaptureStderr();
  }
  ~NameWarnings() {
    if (!read_) testing::internal::GetCapturedStderr();
  }
  std::string read() {
    EXPECT_TRUE(base::log::flush(std::chrono::seconds(10)));
    std::string out;
    std::istringstream lines(testing::internal::GetCapturedStderr());
    read_ = true;
    for (std::string line; std::getline(lines, line);)
      if (auto at = line.find("model is served without one of its names"); at != line.npos)
        out += line.substr(line.find(" model=") + 1) + '\n';
    return out;
  }

 private:
  bool read_ = false;
};

struct RepoOfNames : testing::Test {
  RepoOfNames() : disk({{"a/1/model.onnx", "a"}, {"b/1/model.onnx", "b"}, {"a/model.yaml", "names: [prod, Org/A]"}}) {}
  void open() {
    repo = std::make_unique<Repo>(disk, explicitly);
    ASSERT_TRUE(repo->repository->start().ok());
  }
  bool becomes(const NameMap& names) {
    for (int i = 0; i < 4000 && names_of(*repo) != names; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return names_of(*repo) == names;
  }
  test::Disk disk;
  std::unique_ptr<Repo> repo;
};

TEST_F(RepoOfNames, AModelHasThemAlsoWhileItIsNotLoaded) {
  open();
  EXPECT_EQ(code_of(*repo, "prod"), Code::kUnavailable);
  ASSERT_TRUE(repo->load("a").ok());
  EXPECT_EQ(names_of(*repo), (NameMap{{"Org/A", "a"}, {"prod", "a"}}));
  EXPECT_EQ((*repo->now()->find("prod", ""))->spec.name, "a");
  ASSERT_TRUE(repo->unload("a").ok());
  EXPECT_EQ(code_of(*repo, "prod"), Code::kUnavailable);
  disk.write("c/1/model.onnx", "c");
  disk.write("c/model.yaml", "names: [Org/C]");
  repo->rescan();
  EXPECT_EQ(code_of(*repo, "Org/C"), Code::kUnavailable);
}

TEST_F(RepoOfNames, AReloadTakesWhatIsWrittenThen) {
  open();
  ASSERT_TRUE(repo->load("a").ok());
  disk.write("a/model.yaml", "names: [next]");
  ASSERT_TRUE(repo->load("a").ok());
  EXPECT_EQ(names_of(*repo), (NameMap{{"next", "a"}}));
  disk.write("a/model.yaml", "names: [next, other]\nfile: gone.onnx");
  EXPECT_FALSE(repo->load("a").ok());
  EXPECT_EQ(names_of(*repo), (NameMap{{"next", "a"}})) << "the one before serves on, by its names";
}

TEST_F(RepoOfNames, AReloadTakesThemWhereOneOfItsVersionsIsLoaded) {
  disk.write("a/2/model.onnx", "broken");
  disk.write("a/model.yaml", "versions: all");
  open();
  EXPECT_FALSE(repo->load("a").ok());
  EXPECT_EQ(code_of(*repo, "a"), Code::kOk);
  disk.write("a/model.yaml", "versions: all\nnames: [next]");
  EXPECT_FALSE(repo->load("a").ok());
  EXPECT_EQ(code_of(*repo, "next"), Code::kOk);
}

TEST_F(RepoOfNames, APipelineTakesThemWithTheNodesThatItIsBuiltAnewWith) {
  disk.write("p/model.yaml", "engine: pipeline\nnames: [old]\ndag: {nodes: [{model: a}]}");
  open();
  ASSERT_TRUE(repo->load("p").ok());
  disk.write("b/1/model.onnx", "broken");
  disk.write("p/model.yaml", "engine: pipeline\nnames: [new]\ndag: {nodes: [{model: b}]}");
  EXPECT_FALSE(repo->load("p").ok());
  disk.write("b/1/model.onnx", "b");
  ASSERT_TRUE(repo->load("b").ok());
  EXPECT_EQ(code_of(*repo, "new"), Code::kOk);
}

TEST_F(RepoOfNames, AModelIsServedWithoutANameThatAnotherOneHas) {
  disk.write("b/model.yaml", "names: [prod, a, Org/B]");
  open();
  ASSERT_TRUE(repo->load("a").ok());
  NameWarnings warnings;
  ASSERT_TRUE(repo->load("b").ok());
  ASSERT_TRUE(repo->load("b").ok());
  EXPECT_EQ(warnings.read(), "model=b name=prod owner=a\nmodel=b name=a owner=a\n");
  EXPECT_EQ(names_of(*repo), (NameMap{{"Org/A", "a"}, {"Org/B", "b"}, {"prod", "a"}}));
  disk.write("a/model.yaml", "names: [Org/A]");
  ASSERT_TRUE(repo->load("a").ok());
  EXPECT_EQ(names_of(*repo), (NameMap{{"Org/A", "a"}, {"Org/B", "b"}, {"prod", "b"}})) << "it is free";
}

TEST_F(RepoOfNames, ANameGoesOnToWhoServesWhenItsModelIsUnloadedOrDoesNotLoad) {
  disk.write("a/model.yaml", "names: [prod]");
  disk.write("b/model.yaml", "names: [prod]");
  open();
  ASSERT_TRUE(repo->load("b").ok());
  EXPECT_EQ(names_of(*repo), (NameMap{{"prod", "b"}}));
  ASSERT_TRUE(repo->load("a").ok());
  EXPECT_EQ(names_of(*repo), (NameMap{{"prod", "b"}}));
  ASSERT_TRUE(repo->unload("b").ok());
  EXPECT_EQ(names_of(*repo), (NameMap{{"prod", "a"}}));
  disk.write("b/1/model.onnx", "broken");
  EXPECT_FALSE(repo->load("b").ok());
  EXPECT_EQ(names_of(*repo), (NameMap{{"prod", "a"}}));
}

TEST_F(RepoOfNames, AModelsOwnNameGoesBeforeThoseOfOthersWhichServeOn) {
  open();
  ASSERT_TRUE(repo->load("a").ok());
  disk.write("prod/1/model.onnx", "p");
  NameWarnings warnings;
  ASSERT_TRUE(repo->load("prod").ok());
  EXPECT_EQ(names_of(*repo), (NameMap{{"Org/A", "a"}}));
  EXPECT_EQ((*repo->now()->find("prod", ""))->spec.name, "prod");
  disk.write("a/1/model.onnx", "A");
  EXPECT_TRUE(repo->load("a").ok());
  EXPECT_EQ(warnings.read(), "model=a name=prod owner=prod\n");
  disk.remove("prod");
  repo->rescan();
  EXPECT_TRUE(becomes({{"Org/A", "a"}, {"prod", "a"}}));
}

TEST_F(RepoOfNames, AModelThatIsNotInMemoryHasThem) {
  repo = std::make_unique<Repo>(disk, [](RepositoryOptions& options) {
    options.control = Control::kDemand;
    options.memory = 1;
  });
  ASSERT_TRUE(repo->repository->start().ok());
  EXPECT_EQ(names_of(*repo), (NameMap{{"Org/A", "a"}, {"prod", "a"}}));
}

TEST(NamesAtTheStart, AreOfTheSameModelWhicheverIsLoadedFirst) {
  test::Disk disk({{"a/1/model.onnx", "a"},
                   {"a/model.yaml", "names: [prod]"},
                   {"b/1/model.onnx", "a"},
                   {"b/model.yaml", "names: [prod, Org/B]"}});
  HeldLoads loads;
  loads.hold("a"), loads.hold("b");
  HeldRepo repo(disk, loads, with_threads(2, Control::kNone));
  auto started = repo.begin_start();
  ASSERT_TRUE(loads.begins("a") && loads.begins("b"));
  auto found = repo.now()->find("Org/B", "");
  ASSERT_FALSE(found);
  EXPECT_TRUE(found.error().code == Code::kUnavailable && base::worth_trying_again(found.error()));
  loads.release("b");
  EXPECT_TRUE(repo.becomes("a/1 LOADING\nb/1 READY\n"));
  EXPECT_EQ(names_of(repo), (NameMap{{"Org/B", "b"}, {"prod", "a"}}));
  loads.release("a");
  EXPECT_TRUE(started.get().ok());
  EXPECT_EQ(names_of(repo), (NameMap{{"Org/B", "b"}, {"prod", "a"}}));
}

struct SettledNames : testing::Test {
  const std::vector<std::string> n{"n"};
  const FurtherNames::Model serves{n, true, false}, coming{n, false, true}, away{n, false, false};
  FurtherNames names;
};

TEST_F(SettledNames, AreOfTheFirstInServiceAndStayThere) {
  EXPECT_EQ(names.settle({{"a", away}, {"b", coming}, {"c", serves}}), (NameMap{{"n", "b"}}));
  EXPECT_EQ(names.settle({{"a", serves}, {"b", serves}, {"c", serves}}), (NameMap{{"n", "b"}}));
  EXPECT_EQ(names.settle({{"a", serves}, {"b", coming}}), (NameMap{{"n", "b"}})) << "it is between two versions";
  EXPECT_EQ(names.settle({{"a", serves}, {"b", away}}), (NameMap{{"n", "a"}}));
  EXPECT_EQ(names.settle({{"a", away}, {"b", away}}), (NameMap{{"n", "a"}}));
  EXPECT_EQ(names.settle({{"n", {}}, {"a", serves}}), NameMap());
  EXPECT_EQ(names.settle({{"b", serves}}), (NameMap{{"n", "b"}}));
}

TEST_F(SettledNames, AreMissedInTheLogOnceByWhoServes) {
  NameWarnings warnings;
  names.settle({{"a", serves}, {"b", coming}});
  names.settle({{"a", serves}, {"b", serves}});
  names.settle({{"a", serves}, {"b", away}});
  names.settle({{"a", serves}, {"b", serves}});
  names.settle({{"a", {}}, {"b", serves}});
  names.settle({{"a", serves}, {"b", serves}, {"n", {}}});
  EXPECT_EQ(warnings.read(), "model=b name=n owner=a\nmodel=a name=n owner=n\nmodel=b name=n owner=n\n");
}

TEST(ModelYaml, FurtherNamesAreThoseThatOthersUse) {
  auto config = parse_model_yaml("names: [Qwen/Qwen3-8B, 'llama3:8b', 'ft:gpt-4o-mini:org::id']\n", "m/model.yaml", {});
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->names, (std::vector<std::string>{"Qwen/Qwen3-8B", "llama3:8b", "ft:gpt-4o-mini:org::id"}));
  EXPECT_TRUE(check(*config, "m").ok());
  EXPECT_EQ(parse_model_yaml("names: gpt-4o\n", "m/model.yaml", {})->names, std::vector<std::string>{"gpt-4o"});
  for (const std::string bad : {"", "a b", "a//b", "/a", "a/", "a/../b", "./a", "a?b", "a%2Fb", "m"}) {
    ModelConfig with;
    with.names = {bad};
    EXPECT_EQ(check(with, "m").code, base::Code::kInvalidArgument) << bad;
  }
  ModelConfig many;
  for (int i = 0; i < 33; ++i) many.names.push_back("n" + std::to_string(i));
  EXPECT_EQ(check(many, "m").text, "33 further names: at most 32 are possible");
  many.names = {std::string(201, 'a')};
  EXPECT_FALSE(check(many, "m").ok());
}

}  // namespace
}  // namespace weir::models
