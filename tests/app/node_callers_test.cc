// Calls that another node of the cluster has handed on are their client's, not the node's.
#include "app/node_callers.h"

#include <gtest/gtest.h>

#include "marshal/tenant.h"
#include "net/fd.h"
#include "support/fake_wire.h"

namespace weir::app {
namespace {

using base::Client;
using Shows = NodeCallers::Shows;

struct Node {
  explicit Node(std::string key, Shows shows = Shows::kKey)
      : callers(env, nullptr, nullptr, clients, std::move(key), shows) {}
  base::FakeEnv env;
  base::Clients clients;
  NodeCallers callers;
};

wire::PeerInfo peer(Node& node, const std::string& host, Client::Limited limited = Client::Limited::kYes) {
  wire::PeerInfo out{host + ":5000"};
  out.client = node.clients.enter(host, limited);
  return out;
}

// The fields of a call of that peer's which node `a` has handed on.
wire::Request handed_on(Node& a, const wire::PeerInfo& client) {
  wire::Request asked, out;
  asked.peer = &client;
  a.callers.introduce(asked, out.fields);
  return out;
}

base::Result<wire::Caller> admit(Node& node, const wire::Request& request) {
  return node.callers.admit(request, wire::Permission::kInfer, "salience");
}

TEST(NodeCallers, EachClientOfANodeUsesSharesOfItsOwn) {
  Node a("key"), b("key");
  const auto node = peer(b, "10.0.0.1");
  std::vector<std::string> names;
  std::vector<uint64_t> tenants;
  for (const char* host : {"192.0.2.1", "192.0.2.2"}) {
    const auto client = peer(a, host);
    auto request = handed_on(a, client);
    request.peer = &node;
    auto caller = admit(b, request);
    ASSERT_TRUE(caller);
    ASSERT_TRUE(bool(caller->client()));
    EXPECT_TRUE(caller->client()->limited());
    names.push_back(caller->client()->name());
    tenants.push_back(caller->identity()->tenant_number);
  }
  EXPECT_EQ((std::vector<std::string>{"192.0.2.1", "192.0.2.2"}), names);
  EXPECT_NE(tenants[0], tenants[1]);
}

TEST(NodeCallers, WhoSpeaksForManyIsNotLimitedAtTheOtherNodeEither) {
  Node a("key"), b("key");
  const auto node = peer(b, "10.0.0.1");
  const auto client = peer(a, "10.0.0.9", Client::Limited::kNo);
  auto request = handed_on(a, client);
  request.peer = &node;
  auto caller = admit(b, request);
  ASSERT_TRUE(caller && caller->client());
  EXPECT_FALSE(caller->client()->limited());
}

TEST(NodeCallers, ANodeThatProvesNothingNamesNobodysShares) {
  Node a(""), b("");
  const auto node = peer(b, "10.0.0.1"), client = peer(a, "192.0.2.1");
  auto request = handed_on(a, client);
  request.peer = &node;
  auto caller = admit(b, request);
  ASSERT_TRUE(caller);
  EXPECT_FALSE(caller->client());
  Node other("another key");
  auto stranger = admit(other, request);
  ASSERT_TRUE(stranger);
  EXPECT_FALSE(stranger->client()) << "it is a client's own call";
  EXPECT_EQ(nullptr, stranger->identity());
}

TEST(NodeCallers, ACertificateIsProofEnough) {
  Node a("", Shows::kCertificate), b("", Shows::kCertificate);
  auto node = peer(b, "10.0.0.1");
  const auto client = peer(a, "192.0.2.1");
  auto request = handed_on(a, client);
  request.peer = &node;
  ASSERT_TRUE(admit(b, request));
  EXPECT_FALSE(admit(b, request)->client());
  node.certificate_names =
      std::make_shared<const std::vector<std::string>>(std::vector<std::string>{std::string(net::kShownByNode)});
  auto caller = admit(b, request);
  ASSERT_TRUE(caller && caller->client());
  EXPECT_EQ("192.0.2.1", caller->client()->name());
}

// As codecs see it: the memory of the call's body is the client's.
TEST(NodeCallers, TheExchangeIsTheClientsFromThenOn) {
  Node a("key"), b("key");
  const auto node = peer(b, "10.0.0.1"), client = peer(a, "192.0.2.1");
  support::FakeExchange exchange;
  exchange.mutable_request() = handed_on(a, client);
  exchange.mutable_request().peer = &node;
  auto caller = admit(b, exchange.request());
  ASSERT_TRUE(caller);
  exchange.set_caller(std::move(*caller));
  EXPECT_EQ("192.0.2.1", exchange.request().peer->client->name());
  EXPECT_EQ("192.0.2.1", marshal::client_of(exchange.request()));
  EXPECT_EQ(node.address, exchange.request().peer->address) << "the connection is the node's";
  exchange.set_caller({});
  EXPECT_EQ("192.0.2.1", exchange.request().peer->client->name()) << "until it is another request's";
}

}  // namespace
}  // namespace weir::app
