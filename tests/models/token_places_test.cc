// Models of tokens on several devices.
#include <gtest/gtest.h>

#include <future>
#include <mutex>

#include "bus/memory_use.h"
#include "disk.h"
#include "models/repository.h"

namespace weir::models {
namespace {

std::vector<std::string> loaded;  // devices
size_t lanes = 0;

// A lane makes room for its keys and values once.
struct FakeTokens final : generation::TokenEngine {
  explicit FakeTokens(std::shared_ptr<const msg::TextSpec> text) : text_(std::move(text)) {}
  const msg::TextSpec& text() const override { return *text_; }
  size_t kv_bytes(size_t positions) const override { return positions; }
  base::Status reserve(uint32_t, uint32_t) override { return ++lanes, base::Status(); }
  base::Status step(generation::TokenStep&) override { return {}; }
  void copy_block(uint32_t, uint32_t, uint32_t) override {}
  base::Result<generation::ImageFeatures> encode_image(const msg::Image&) override {
    return base::failure(base::Code::kUnimplemented, "no images");
  }
  const std::shared_ptr<const msg::TextSpec> text_;
};

base::Result<Instance> make_tokens(const LoadArgs& a) {
  auto at = a.wanted.parameters.find("device");
  loaded.push_back(at == a.wanted.parameters.end() ? "" : at->second);
  auto text = std::make_shared<msg::TextSpec>();
  text->max_length = loaded.back() == "cuda:1" ? 500 : 1000;
  msg::ModelSpec spec = a.wanted;
  spec.text = text;
  generation::TokenModel model{std::move(spec), std::make_unique<FakeTokens>(std::move(text)), {}};
  model.place = loaded.back();
  if (a.wanted.parameters.contains("together")) model.other_places = {"the one behind it"};
  return model;
}

class PlacesRepo {
 public:
  PlacesRepo(test::Disk& disk, uint32_t gpus) {
    loaded.clear(), lanes = 0;
    RepositoryOptions options;
    options.roots = {disk.root()};
    options.load_threads = 1;  // `loaded` is one thread's
    options.devices.gpus = gpus, options.devices.engines = {"tokens"};
    repository = std::make_unique<Repository>(options, std::map<std::string, EngineMaker>{{"tokens", make_tokens}},
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
  PlacesRepo repo(disk, 2);
  EXPECT_EQ(loaded, (std::vector<std::string>{"cuda:0", "cuda:1"}));
  EXPECT_EQ(lanes, 2u);
  EXPECT_EQ(repo.catalog->models.at("m").preferred->spec.text->max_length, 500u) << "what every device has room for";
}

TEST(TokenPlaces, EachInstanceHasItsWeightsAndItsKeysAndValues) {
  test::Disk disk;
  disk.write("m/model.yaml", "engine: tokens\ndevices: [\"cuda:0\", \"cuda:1\"]\nmemory: 1000\n");
  PlacesRepo repo(disk, 2);
  std::string uses;
  for (const auto& use : bus::memory_of(*repo.catalog->models.at("m").preferred))
    uses += std::string(use.what) + ' ' + use.place + ' ' + std::to_string(use.bytes) + '\n';
  // 64 sequences of 32 blocks of 16 positions, 16 times; a position is a byte here.
  EXPECT_EQ(uses, "weights cuda:0 500\nweights cuda:1 500\nkv cuda:0 524288\nkv cuda:1 524288\n");
}

TEST(TokenPlaces, TritonsKindAutoTakesEveryGpuOrTheCpu) {
  test::Disk disk;
  disk.write("m/config.pbtxt", "backend: \"tokens\" instance_group [ { count: 1 } ]");
  {
    PlacesRepo repo(disk, 2);
    EXPECT_EQ(lanes, 2u);
  }
  PlacesRepo repo(disk, 0);
  EXPECT_EQ(lanes, 1u);
}

TEST(TokenPlaces, TwoOnOneDeviceAreRefusedBeforeTheSecondIsLoaded) {
  test::Disk disk;
  disk.write("m/model.yaml", "engine: tokens\ninstances: 2\n");
  disk.write("n/model.yaml", "engine: tokens\ndevices: [\"cuda:0\"]\ninstances: 2\n");
  PlacesRepo repo(disk, 1);
  EXPECT_EQ(loaded.size(), 2u);
  std::string reasons;
  for (const auto& row : repo.catalog->index) reasons += row.reason + '\n';
  EXPECT_EQ(reasons,
            "two instances on one device: a model of tokens has one on each device, which batches, and shares its keys "
            "and values\n"
            "two instances on 'cuda:0': a model of tokens has one on each device, which batches, and shares its keys "
            "and values\n");
}

TEST(TokenPlaces, InstancesOfSeveralDevicesDoNotOverlap) {
  test::Disk disk;
  disk.write("m/model.yaml", "engine: tokens\ndevices: [\"cuda:1\", \"cuda\"]\nparameters: {together: 2}\n");
  {
    PlacesRepo repo(disk, 4);
    EXPECT_EQ(loaded.size(), 1u);
    EXPECT_EQ(repo.catalog->index.at(0).reason,
              "two instances on 'cuda:1': a model of tokens has one on each device, which batches, and shares its keys "
              "and values");
  }
  disk.write("m/model.yaml", "engine: tokens\ndevices: [\"cuda:2\", \"cuda\"]\nparameters: {together: 2}\n");
  PlacesRepo repo(disk, 4);
  EXPECT_EQ(lanes, 2u);
}

}  // namespace
}  // namespace weir::models
