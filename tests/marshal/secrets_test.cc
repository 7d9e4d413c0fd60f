#include "marshal/secrets.h"

#include <gtest/gtest.h>

#include "base/clients.h"
#include "marshal/tenant.h"
#include "msg/call.h"

namespace weir::marshal {
namespace {

TEST(Secrets, TheFirstThatIsTheSameIsFound) {
  Secrets secrets({"alpha", "beta", "alpha"});
  EXPECT_EQ(secrets.size(), 3u);
  EXPECT_EQ(secrets.find("alpha"), 0u);
  EXPECT_EQ(secrets.find("beta"), 1u);
  for (const char* other : {"", "alph", "alphaa", "Alpha", "alphabeta"}) EXPECT_FALSE(secrets.find(other)) << other;
  EXPECT_FALSE(Secrets().find(""));
  EXPECT_TRUE(Secrets().empty());
}

TEST(Secrets, ABearerTokenIsWhatFollowsTheScheme) {
  auto token = [](std::string_view value) {
    wire::Request request;
    request.fields.add("authorization", value);
    return std::string(bearer_token(request));
  };
  EXPECT_EQ(token("Bearer x"), "x");
  EXPECT_EQ(token("bEARER   x"), "x");
  for (const char* none : {"", "Bearer", "Bearer ", "Basic x", "x", "Bearerx"}) EXPECT_EQ(token(none), "") << none;
  EXPECT_EQ(bearer_token(wire::Request()), "");
}

TEST(Tenant, IsTheSecretsElseTheAddresss) {
  wire::PeerInfo a{"192.0.2.1:5000"}, again{"192.0.2.1:6000"}, b{"192.0.2.2:5000"}, v6{"[2001:db8::1]:5000"},
      local{"unix"};
  auto tenant = [](const wire::PeerInfo& peer, std::string_view secret = {}) {
    wire::Request request;
    request.peer = &peer;
    return tenant_of(request, secret);
  };
  EXPECT_EQ(tenant(a), tenant(again));
  EXPECT_NE(tenant(a), tenant(b));
  EXPECT_NE(tenant(a), tenant(v6));
  EXPECT_EQ(tenant(a, "s"), tenant(b, "s"));
  EXPECT_NE(tenant(a, "s"), tenant(a, "t"));
  for (const auto* peer : {&a, &b, &v6, &local}) EXPECT_TRUE(msg::is_anonymous(tenant(*peer)));
  EXPECT_FALSE(msg::is_anonymous(tenant(a, "s")));
  for (const auto* peer : {&a, &b, &v6}) EXPECT_FALSE(msg::speaks_for_many(tenant(*peer)));
  EXPECT_TRUE(msg::speaks_for_many(tenant(local))) << "nothing tells its clients apart";
  EXPECT_FALSE(msg::speaks_for_many(tenant(local, "s")));
  base::Clients clients;
  wire::PeerInfo proxy = a, named = a;
  proxy.client = clients.enter("192.0.2.1", base::Client::Limited::kNo);
  named.client = clients.enter("198.51.100.1", base::Client::Limited::kYes);
  EXPECT_TRUE(msg::speaks_for_many(tenant(proxy))) << "a trusted proxy that names nobody";
  EXPECT_FALSE(msg::speaks_for_many(tenant(named)));
  EXPECT_NE(tenant(a, "192.0.2.1"), tenant(a)) << "a secret is nobody's address";
}

}  // namespace
}  // namespace weir::marshal
