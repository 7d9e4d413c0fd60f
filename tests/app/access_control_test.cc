#include "app/access_control.h"

#include <gtest/gtest.h>

#include "app/banner.h"

namespace weir::app {
namespace {

using wire::Role;

class AccessControlTest : public testing::Test {
 protected:
  AccessControlTest() { config.dialects.clear(); }
  wire::Roles anonymous() {
    AccessControl access(config);
    EXPECT_TRUE(access.open().ok());
    return access.anonymous();
  }
  std::string open() {
    AccessControl access(config);
    EXPECT_TRUE(access.open().ok());
    return what_is_open(config, access);
  }

  Config config;
};

TEST_F(AccessControlTest, AdminMethodsAreGuardedWhereOtherMachinesReachTheirListener) {
  config.listen = {"127.0.0.1:8080"};
  EXPECT_TRUE(anonymous().has(Role::kAdmin));
  config.listen = {"127.0.0.1:8080", "0.0.0.0:8080"};
  EXPECT_FALSE(anonymous().has(Role::kAdmin));
  for (const char* address : {"unix:/run/admin.sock", "127.0.0.1:9090", "localhost:9090"}) {
    config.admin_listen = {address};
    EXPECT_TRUE(anonymous().has(Role::kAdmin)) << address;
  }
  config.admin_listen.push_back("0.0.0.0:9090");
  EXPECT_FALSE(anonymous().has(Role::kAdmin));
  config.auth.admin = AuthConfig::Admin::kOpen;
  EXPECT_TRUE(anonymous().has(Role::kAdmin));
}

TEST_F(AccessControlTest, WhatIsOpenNamesTheAdminMethodsOfReachableListenersAlone) {
  config.listen = {"0.0.0.0:8080"};
  config.admin_listen = {"127.0.0.1:9090"};
  EXPECT_NE(open().find("whoever reaches 0.0.0.0:8080 may see and run models"), std::string::npos) << open();
  EXPECT_EQ(open().find("load and unload"), std::string::npos) << open();
  EXPECT_EQ(open().find("admin methods are refused"), std::string::npos) << open();
  config.admin_listen = {"0.0.0.0:9090"};
  EXPECT_NE(open().find("admin methods are refused"), std::string::npos) << open();
  config.auth.admin = AuthConfig::Admin::kOpen;
  EXPECT_NE(open().find("0.0.0.0:8080, 0.0.0.0:9090"), std::string::npos) << open();
  EXPECT_NE(open().find("load and unload"), std::string::npos) << open();
}

}  // namespace
}  // namespace weir::app
