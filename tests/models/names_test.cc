// Further names of models (`names:` of model.yaml).
#include "models/model_yaml.h"
#include "repository_fixture.h"

namespace weir::models {
namespace {

std::map<std::string, std::string, std::less<>> names_of(Repo& repo) { return repo.now()->names; }
using NameMap = std::map<std::string, std::string, std::less<>>;

struct FurtherNames : testing::Test {
  FurtherNames() : disk({{"a/1/model.onnx", "a"}, {"b/1/model.onnx", "b"}, {"a/model.yaml", "names: [prod, Org/A]"}}) {}
  void open() {
    repo = std::make_unique<Repo>(disk, explicitly);
    ASSERT_TRUE(repo->repository->start().ok());
  }
  test::Disk disk;
  std::unique_ptr<Repo> repo;
};

TEST_F(FurtherNames, AModelHasThemFromItsLoadToItsUnload) {
  open();
  ASSERT_TRUE(repo->load("a").ok());
  EXPECT_EQ(names_of(*repo), (NameMap{{"Org/A", "a"}, {"prod", "a"}}));
  EXPECT_EQ((*repo->now()->find("prod", ""))->spec.name, "a");
  ASSERT_TRUE(repo->unload("a").ok());
  EXPECT_TRUE(names_of(*repo).empty());
}

TEST_F(FurtherNames, AReloadTakesWhatIsWrittenThen) {
  open();
  ASSERT_TRUE(repo->load("a").ok());
  disk.write("a/model.yaml", "names: [next]");
  ASSERT_TRUE(repo->load("a").ok());
  EXPECT_EQ(names_of(*repo), (NameMap{{"next", "a"}}));
  disk.write("a/model.yaml", "names: [next, other]\nfile: gone.onnx");
  EXPECT_FALSE(repo->load("a").ok());
  EXPECT_EQ(names_of(*repo), (NameMap{{"next", "a"}})) << "the one before serves on, by its names";
}

TEST_F(FurtherNames, ANameIsOfOneModelAlone) {
  open();
  ASSERT_TRUE(repo->load("a").ok());
  disk.write("b/model.yaml", "names: [prod]");
  EXPECT_EQ(repo->load("b").text, "failed to load 'b': its further name 'prod' is one of model 'a'");
  disk.write("b/model.yaml", "names: [a]");
  EXPECT_EQ(repo->load("b").text, "failed to load 'b': its further name 'a' is one of model 'a'");
  disk.write("a/model.yaml", "names: [Org/A]");
  disk.write("b/model.yaml", "names: [prod]");
  ASSERT_TRUE(repo->load("a").ok());
  EXPECT_TRUE(repo->load("b").ok());
  EXPECT_EQ(names_of(*repo), (NameMap{{"Org/A", "a"}, {"prod", "b"}})) << "it has gone from one to the other";
}

TEST_F(FurtherNames, AModelsOwnNameGoesBeforeThoseOfOthers) {
  open();
  ASSERT_TRUE(repo->load("a").ok());
  disk.write("prod/1/model.onnx", "p");
  ASSERT_TRUE(repo->load("prod").ok());
  EXPECT_EQ(names_of(*repo), (NameMap{{"Org/A", "a"}}));
  EXPECT_EQ((*repo->now()->find("prod", ""))->spec.name, "prod");
}

TEST_F(FurtherNames, AModelThatIsNotInMemoryHasThem) {
  repo = std::make_unique<Repo>(disk, [](RepositoryOptions& options) {
    options.control = Control::kDemand;
    options.memory = 1;
  });
  ASSERT_TRUE(repo->repository->start().ok());
  EXPECT_EQ(names_of(*repo), (NameMap{{"Org/A", "a"}, {"prod", "a"}}));
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
