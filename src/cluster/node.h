// Node: what a node says of itself in the bucket, once a second. Pure; any thread.
//
//   entry  = "weir-node 1" LF *( line LF ) [ "mac " 64HEXDIG LF ]        at most kLargestNode bytes
//   line   = "id " name / "incarnation " number / "beat " number / "phase " ( "serving" / "draining" / "fenced" )
//          / "address " url / "load " number / "model " name SP ( "tensors" / "tokens" )
//          / "alone " milliseconds / "fencer " name SP number                  see promises.h
//   name   = 1*128( ALPHA / DIGIT / "_" / "-" / "." )                    without "..", not beginning with "."
//
// A line of another name is passed over, so that newer nodes may say more. "mac" is the HMAC-SHA256 of all before it by
// a key of cluster.secret: without it an entry is refused where there is a secret, for whoever writes into the bucket
// could have calls, and the key that goes along with them, sent anywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/status.h"

namespace weir::cluster {

inline constexpr size_t kLargestNode = 256 << 10, kMostModels = 4096, kLongestAddress = 256, kMostFencers = 64;

struct NodeModel {
  enum class Makes : uint8_t { kTensors, kTokens };
  std::string name;
  Makes makes = Makes::kTensors;
  friend bool operator==(const NodeModel&, const NodeModel&) = default;
};

struct Node {
  enum class Phase : uint8_t {
    kServing,
    kDraining,  // takes no new calls
    kFenced,    // another node has written this in its place: what it owned is free
  };
  std::string id;
  uint64_t incarnation = 0;  // a greater one each time it joins: it has nothing of the last
  uint64_t beat = 0;         // grows
  Phase phase = Phase::kServing;
  std::string address;  // "http://10.0.0.7:8080"; empty: it takes no calls of others
  uint32_t load = 0;    // calls under way
  std::vector<NodeModel> models;
  // How long it may go on while the bucket is away, and the nodes, with their incarnations, that may fence it as soon
  // as they could where this is 0. In whole milliseconds.
  base::Duration alone{};
  std::vector<std::pair<std::string, uint64_t>> fencers;
};

// The keys that follow from cluster.secret; all empty where there is none.
struct Secrets {
  std::string entry_key;  // of "mac"
  std::string call_key;   // 64 hexadecimal digits: what calls between nodes bring as `authorization: Bearer …`
  static Secrets derive(std::string_view secret);
};

// The HMAC-SHA256 as 64 hexadecimal digits, and whether two of them are the same, in a time that says nothing.
std::string mac_of(std::string_view key, std::string_view text);
bool same_mac(std::string_view a, std::string_view b);

// The rule of names above, which is that of models and of nodes.
bool good_name(std::string_view name);

std::string write_node(const Node& node, std::string_view entry_key);
// Errors: INVALID_ARGUMENT saying which line; PERMISSION_DENIED: it was not written by one who has the secret.
base::Result<Node> read_node(std::string_view text, std::string_view entry_key);

}  // namespace weir::cluster
