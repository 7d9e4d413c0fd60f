// TenantHoldings: how much of a resource (slots of a step, blocks of keys and values) each tenant holds, and who has to
// give some of it up. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace weir::generation {

class TenantHoldings {
 public:
  // A tenant's share is `percent` of `total`, and at least 1. From 100 on nobody has to give anything up.
  TenantHoldings(uint64_t total, uint32_t percent);
  // The holdings of a tenant that speaks for many clients (msg/tenant.h) are not counted: they are no single client's.
  void add(uint64_t tenant, uint64_t amount);
  // The tenant that holds most, and more than its share, when `claimant` asks for `more`. Null when there is none, or
  // when the claimant would then have more than its share itself.
  std::optional<uint64_t> gives_way(uint64_t claimant, uint64_t more) const;

 private:
  const uint64_t share_;
  std::vector<std::pair<uint64_t, uint64_t>> held_;  // by tenant; few
};

}  // namespace weir::generation
