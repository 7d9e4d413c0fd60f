#include "marshal/tenant.h"

#include <gtest/gtest.h>

#include "base/clients.h"
#include "msg/call.h"

namespace weir::marshal {
namespace {

TEST(Tenant, IsTheKeysElseTheAddresss) {
  wire::PeerInfo a{"192.0.2.1:5000"}, again{"192.0.2.1:6000"}, b{"192.0.2.2:5000"}, v6{"[2001:db8::1]:5000"},
      local{"unix"};
  auto tenant = [](const wire::PeerInfo& peer, uint64_t number = 0) {
    wire::Identity who;
    who.tenant_number = number;
    wire::Request request;
    request.peer = &peer;
    request.identity = &who;
    return tenant_of(request);
  };
  EXPECT_EQ(tenant(a), tenant(again));
  EXPECT_NE(tenant(a), tenant(b));
  EXPECT_NE(tenant(a), tenant(v6));
  EXPECT_EQ(tenant(a, 8), tenant(b, 8));
  EXPECT_NE(tenant(a, 8), tenant(a, 10));
  for (const auto* peer : {&a, &b, &v6, &local}) EXPECT_TRUE(msg::is_anonymous(tenant(*peer)));
  EXPECT_FALSE(msg::is_anonymous(tenant(a, 8)));
  for (const auto* peer : {&a, &b, &v6}) EXPECT_FALSE(msg::speaks_for_many(tenant(*peer)));
  EXPECT_TRUE(msg::speaks_for_many(tenant(local))) << "nothing tells its clients apart";
  EXPECT_FALSE(msg::speaks_for_many(tenant(local, 8)));
  base::Clients clients;
  wire::PeerInfo proxy = a, named = a;
  proxy.client = clients.enter("192.0.2.1", base::Client::Limited::kNo);
  named.client = clients.enter("198.51.100.1", base::Client::Limited::kYes);
  EXPECT_TRUE(msg::speaks_for_many(tenant(proxy))) << "a trusted proxy that names nobody";
  EXPECT_FALSE(msg::speaks_for_many(tenant(named)));
  wire::Request nobody;
  nobody.peer = &a;
  EXPECT_EQ(tenant_of(nobody), tenant(a)) << "where nobody is asked";
}

}  // namespace
}  // namespace weir::marshal
