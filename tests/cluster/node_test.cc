#include "cluster/node.h"

#include <gtest/gtest.h>

#include <random>

#include "base/clock.h"
#include "cluster/lease_view.h"

namespace weir::cluster {
namespace {

using base::Code;

Node example() {
  Node node;
  node.id = "a", node.incarnation = 7, node.beat = 3, node.address = "http://10.0.0.7:8080", node.load = 5;
  node.phase = Node::Phase::kDraining;
  node.models = {{"resnet", NodeModel::Makes::kTensors}, {"chat", NodeModel::Makes::kTokens}};
  return node;
}

TEST(Node, WhatIsWrittenIsReadAgain) {
  for (const std::string key : {"", "0123456789abcdef"}) {
    auto read = read_node(write_node(example(), key), key);
    ASSERT_TRUE(read) << read.error().text;
    EXPECT_EQ("a", read->id);
    EXPECT_EQ(7u, read->incarnation);
    EXPECT_EQ(3u, read->beat);
    EXPECT_EQ(5u, read->load);
    EXPECT_EQ(Node::Phase::kDraining, read->phase);
    EXPECT_EQ("http://10.0.0.7:8080", read->address);
    EXPECT_EQ(example().models, read->models);
  }
}

TEST(Node, LinesOfNewerNodesArePassedOver) {
  EXPECT_TRUE(read_node(write_node(example(), "") + "color blue\nempty\n", ""));
}

TEST(Node, AnEntryWithoutTheSecretIsRefused) {
  const auto ours = Secrets::derive("ours"), theirs = Secrets::derive("theirs");
  std::string signed_text = write_node(example(), ours.entry_key);
  EXPECT_TRUE(read_node(signed_text, ours.entry_key));
  EXPECT_EQ(Code::kPermissionDenied, read_node(signed_text, theirs.entry_key).error().code);
  EXPECT_EQ(Code::kPermissionDenied, read_node(write_node(example(), ""), ours.entry_key).error().code);
  for (size_t i = 0; i < signed_text.size(); ++i) {
    std::string changed = signed_text;
    changed[i] = char(changed[i] ^ 1);
    EXPECT_FALSE(read_node(changed, ours.entry_key)) << i;
  }
  EXPECT_FALSE(read_node(signed_text + "address http://evil:1\n", ours.entry_key));
  EXPECT_NE(ours.call_key, ours.entry_key);
  EXPECT_EQ(64u, ours.call_key.size());
}

TEST(Node, HostileEntriesAreRefusedByName) {
  const std::string good = "weir-node 1\nid a\nincarnation 1\n";
  ASSERT_TRUE(read_node(good, ""));
  const std::pair<std::string, std::string> cases[] = {
      {"", "no entry"},
      {"weir-node 2\nid a\nincarnation 1\n", "no entry"},
      {good + "x", "no entry"},
      {"weir-node 1\nid a\n", "incarnation"},
      {"weir-node 1\nincarnation 1\n", "id"},
      {good + "id ../x\n", "line 4"},
      {good + "beat -1\n", "line 4"},
      {good + "beat 99999999999999999999999\n", "line 4"},
      {good + "load\n", "line 4"},
      {good + "phase asleep\n", "line 4"},
      {good + "address file:///etc/passwd\n", "line 4"},
      {good + "address http://a b\n", "line 4"},
      {good + "address http://" + std::string(300, 'a') + "\n", "line 4"},
      {good + "model x\n", "line 4"},
      {good + "model ../../etc tensors\n", "line 4"},
      {good + "model x pictures\n", "line 4"},
      {good + std::string(kLargestNode, '\n'), "bytes"},
  };
  for (const auto& [text, word] : cases) {
    auto read = read_node(text, "");
    ASSERT_FALSE(read) << text.substr(0, 80);
    EXPECT_NE(std::string::npos, read.error().text.find(word)) << read.error().text;
    EXPECT_LT(read.error().text.size(), 200u);
  }
  std::string many = good;
  for (size_t i = 0; i <= kMostModels; ++i) many += "model m" + std::to_string(i) + " tensors\n";
  EXPECT_FALSE(read_node(many, ""));
}

TEST(Node, RandomBytesNeverBecomeAnotherNode) {
  std::mt19937_64 random(1);
  const std::string text = write_node(example(), "");
  for (int i = 0; i < 20000; ++i) {
    std::string changed = text;
    for (int n = 0; n < 3; ++n) changed[random() % changed.size()] = char(random());
    if (auto read = read_node(changed, "")) {
      EXPECT_TRUE(good_name(read->id));
      for (const auto& model : read->models) EXPECT_TRUE(good_name(model.name));
    }
  }
}

TEST(LeaseView, SaysWhyThereIsNone) {
  LeaseView lease;
  EXPECT_EQ(lease.epoch(), 0u);
  EXPECT_NE(lease.why_none("two").find("kept sessions are refused"), std::string::npos);
  lease.name_taken();
  EXPECT_NE(lease.why_none("two").find("the name 'two' (cluster.name) is another process's"), std::string::npos);
  lease.claim(base::steady_now() + std::chrono::hours(1), 7);
  EXPECT_EQ(lease.epoch(), 7u);
  lease.claim({}, 8);
  EXPECT_EQ(lease.epoch(), 0u);
  EXPECT_EQ(lease.why_none("two").find("two"), std::string::npos) << "it had the name since";
}

}  // namespace
}  // namespace weir::cluster
