#include "wire/identity.h"

namespace weir::wire {

base::Result<Caller> Caller::enter(std::shared_ptr<const Identity> identity, base::Time now) {
  if (identity && identity->limiter)
    if (auto status = identity->limiter->enter(now); !status.ok()) return status;
  return Caller(std::move(identity));
}

base::Result<Caller> Caller::enter_counted(std::shared_ptr<const Identity> identity, base::Time now) {
  if (identity && identity->limiter)
    if (auto status = identity->limiter->enter_counted(now); !status.ok()) return status;
  return Caller(std::move(identity));
}

base::Status admit_another(const Identity* identity, base::Time now, base::WallTime wall) {
  if (!identity) return {};
  if (identity->revoked.load(std::memory_order_relaxed) || wall >= identity->expires)
    return base::failure(base::Code::kUnauthenticated,
                         "the key '" + identity->name + "' has expired or was taken away since this began");
  return identity->limiter ? identity->limiter->again(now) : base::Status();
}

}  // namespace weir::wire
