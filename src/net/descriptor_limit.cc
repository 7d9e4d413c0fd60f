#include "net/descriptor_limit.h"

#include <sys/resource.h>

#include "base/log.h"

namespace weir::net {

size_t within_descriptors(size_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  rlimit all{limit.rlim_max, limit.rlim_max};
  if (limit.rlim_cur < limit.rlim_max && ::setrlimit(RLIMIT_NOFILE, &all) == 0) limit = all;
  if (wanted <= limit.rlim_cur / 2) return wanted;
  base::log::warning("max_connections is more than half of the file descriptors: fewer are taken",
                     {{"max_connections", wanted}, {"taken", limit.rlim_cur / 2}});
  return size_t(limit.rlim_cur / 2);
}

}  // namespace weir::net
