#include "cluster/remote_models.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace weir::cluster {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

struct RemoteModelsTest : testing::Test {
  static std::string make_root() {
    std::string name = (fs::temp_directory_path() / "weir-test-XXXXXX").string();
    return ::mkdtemp(name.data());
  }
  ~RemoteModelsTest() override { fs::remove_all(root); }

  static Node node(int number, std::vector<NodeModel> models, Node::Phase phase = Node::Phase::kServing) {
    Node out;
    out.id = "n" + std::to_string(number), out.incarnation = 1, out.phase = phase;
    out.address = "http://127.0.0.1:" + std::to_string(number);
    out.models = std::move(models);
    return out;
  }
  Names update(std::vector<Node> nodes) {
    refreshed.clear();
    remote.update({std::move(nodes)});
    return refreshed;
  }
  std::string file(const std::string& model) const {
    std::ifstream in(fs::path(root) / model / "model.yaml");
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const std::string root = make_root();
  Names refreshed;
  forward::Directory directory;
  RemoteModels remote{root, directory, [this](Names models) { refreshed = std::move(models); }};
  const NodeModel a{"a", NodeModel::Makes::kTensors}, b{"b", NodeModel::Makes::kTensors},
      text{"text", NodeModel::Makes::kTokens};
};

TEST_F(RemoteModelsTest, ModelsOfOthersBecomeFoldersAndGo) {
  EXPECT_EQ((Names{"a", "b"}), update({node(1, {a, text}), node(2, {a, b})}));
  EXPECT_NE(std::string::npos, file("a").find("origins: cluster"));
  EXPECT_EQ(std::string::npos, file("a").find("127.0.0.1"));
  EXPECT_EQ(2u, directory.urls("a").size());
  EXPECT_EQ(1u, directory.urls("text").size());
  EXPECT_FALSE(fs::exists(fs::path(root) / "text"));
  EXPECT_EQ((Names{}), update({node(1, {a, text}), node(2, {a, b})}));
  EXPECT_EQ((Names{"b"}), update({node(1, {a})}));
  EXPECT_FALSE(fs::exists(fs::path(root) / "b"));
  EXPECT_EQ(1u, directory.urls("a").size());
}

TEST_F(RemoteModelsTest, ANodeThatDrainsOrHasNoAddressIsNotAsked) {
  Node hidden = node(2, {b});
  hidden.address.clear();
  EXPECT_EQ((Names{}), update({node(1, {a}, Node::Phase::kDraining), hidden}));
}

TEST_F(RemoteModelsTest, AFolderThatCouldNotBeWrittenIsWrittenAtTheNextChange) {
  std::ofstream(fs::path(root) / "a") << "in the way";
  EXPECT_EQ((Names{}), update({node(1, {a})}));
  EXPECT_EQ((Names{}), update({node(1, {a}), node(2, {a})}));
  fs::remove(fs::path(root) / "a");
  EXPECT_EQ((Names{"a"}), update({node(1, {a})}));
  EXPECT_NE(std::string::npos, file("a").find("places: 8"));
  EXPECT_EQ((Names{}), update({node(1, {a}), node(2, {a})}));
}

TEST_F(RemoteModelsTest, AModelIsReadAgainOnlyWhenItsPlacesAreUsedUp) {
  EXPECT_EQ((Names{"a"}), update({node(1, {a})}));
  const std::string first = file("a");
  std::vector<Node> nodes;
  for (int i = 1; i <= 8; ++i) nodes.push_back(node(i, {a}));
  EXPECT_EQ((Names{}), update(nodes));
  nodes.push_back(node(9, {a}));
  EXPECT_EQ((Names{"a"}), update(nodes));
  EXPECT_NE(first, file("a"));
  for (int i = 10; i <= 200; ++i) nodes.push_back(node(i, {a}));
  update(nodes);
  EXPECT_EQ(RemoteModels::kMostNodes, directory.urls("a").size());
  EXPECT_NE(std::string::npos, file("a").find("places: 64"));
}

TEST_F(RemoteModelsTest, AddressesThatAreNoneArePassedOver) {
  Node liar = node(2, {a});
  liar.address = "http://127.0.0.1:1/path";
  update({node(1, {a}), liar});
  EXPECT_EQ(1u, directory.urls("a").size());
}

}  // namespace
}  // namespace weir::cluster
