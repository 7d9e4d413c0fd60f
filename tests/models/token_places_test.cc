// Models of tokens on several devices.
#include <gtest/gtest.h>

#include <future>
#include <mutex>

#include "disk.h"
#include "models/repository.h"

namespace weir::models {
namespace {

std::vector<std::string> loaded;  // devices
size_t lanes = 0;

struct FakeTokens final : sched::Engine {
  explicit FakeTokens(const msg::ModelSpec& wanted) : spec_(wanted) {
    auto text = std::make_shared<msg::TextSpec>();
    auto at = wanted.parameters.find("device");
    loaded.push_back(at == wanted.parameters.end() ? "" : at->second);
    text->max_length = loaded.back() == "cuda:1" ? 500 : 1000;
    spec_.text = std::move(text);
  }
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(sched::Batch&) override { return {}; }
  std::unique_ptr<msg::Inbox> own_inbox(const msg::ModelSpec&, bus::ModelStats&, base::SlabSource&,
                                        std::vector<std::unique_ptr<sched::Engine>> others) override {
    struct None final : msg::Inbox {
      void put(msg::Call*) override {}
    };
    lanes = 1 + others.size();
    return std::make_unique<None>();
  }
  msg::ModelSpec spec_;
};

class Repo {
 public:
  Repo(test::Disk& disk, uint32_t gpus) {
    loaded.clear(), lanes = 0;
    RepositoryOptions options;
    options.roots = {disk.root()};
    options.devices.gpus = gpus, options.devices.engines = {"tokens"};
    auto make = [](const LoadArgs& a) -> base::Result<std::unique_ptr<sched::Engine>> {
      return std::unique_ptr<sched::Engine>(std::make_unique<FakeTokens>(a.wanted));
    };
    repository = std::make_unique<Repository>(options, std::map<std::string, EngineMaker>{{"tokens", make}},
                                              base::heap(), [this](auto next, auto settled) {
                                                catalog = std::move(next);
                                                settled();
                                              });
    EXPECT_TRUE(repository->start().ok());
  }
  std::shared_ptr<const bus::Catalog> catalog;
  std::unique_ptr<Repository> repository;
};

TEST(TokenPlaces, OneLaneOnEachDevice) {
  test::Disk disk;
  disk.write("m/model.yaml", "engine: tokens\ndevices: [\"cuda:0\", \"cuda:1\"]\n");
  Repo repo(disk, 2);
  EXPECT_EQ(loaded, (std::vector<std::string>{"cuda:0", "cuda:1"}));
  EXPECT_EQ(lanes, 2u);
  EXPECT_EQ(repo.catalog->models.at("m").preferred->spec.text->max_length, 500u) << "what every device has room for";
}

TEST(TokenPlaces, TritonsKindAutoTakesEveryGpuOrTheCpu) {
  test::Disk disk;
  disk.write("m/config.pbtxt", "backend: \"tokens\" instance_group [ { count: 1 } ]");
  {
    Repo repo(disk, 2);
    EXPECT_EQ(lanes, 2u);
  }
  Repo repo(disk, 0);
  EXPECT_EQ(lanes, 1u);
}

TEST(TokenPlaces, TwoOnOneDeviceAreRefusedBeforeTheSecondIsLoaded) {
  test::Disk disk;
  disk.write("m/model.yaml", "engine: tokens\ninstances: 2\n");
  disk.write("n/model.yaml", "engine: tokens\ndevices: [\"cuda:0\"]\ninstances: 2\n");
  Repo repo(disk, 1);
  EXPECT_EQ(loaded.size(), 2u);
  std::string reasons;
  for (const auto& row : repo.catalog->index) reasons += row.reason + '\n';
  EXPECT_EQ(reasons,
            "two instances on one device: a model of tokens has one on each device, which batches, and shares its keys "
            "and values\n"
            "two instances on 'cuda:0': a model of tokens has one on each device, which batches, and shares its keys "
            "and values\n");
}

}  // namespace
}  // namespace weir::models
