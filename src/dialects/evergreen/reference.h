// References: chunks whose bytes are somewhere else. `file:` URIs name files below the configured folders, by their
// absolute path (`file:///srv/media/a.png` below the folder /srv/media) or by their path in the folder
// (`file://a.png`, `file:///a.png`, `file:a.png`). The kernel makes sure that none leads out of its folder (openat2
// with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS). Everything else is the Fetcher's, if there is one: `http:` and
// `https:` (net/fetch.h says what is done against reaching inside).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/env.h"
#include "base/memory_ledger.h"
#include "base/status.h"
#include "dialects/evergreen/options.h"
#include "wire/fetcher.h"

namespace weir::evergreen {

// A reference that is being loaded. Destroying it ends that.
class Load {
 public:
  class Listener {
   public:
    // It takes more memory than before. False: that is too much, and it fails.
    virtual bool on_growth() = 0;
    // Once; the Load may be destroyed from inside. Errors name the URI.
    virtual void on_loaded(Load& load, base::Result<base::Bytes> data) = 0;

   protected:
    ~Listener() = default;
  };

  virtual ~Load() = default;
  // The memory that it takes, or will.
  virtual uint64_t size() const = 0;

  std::string node;
  uint64_t node_serial = 0;
  int64_t seq = 0;
};

// The means to load references on this shard. `fetcher` may be null.
struct Library {
  base::Env& env;
  const References& references;
  wire::Fetcher* fetcher;
  base::MemoryLedger* ledger = nullptr;  // what is being loaded is charged to it; null: to nobody
};

// Tells the listener later, never from inside. Errors: PERMISSION_DENIED (a scheme that is off, a host that is not
// allowed), INVALID_ARGUMENT (no URI), NOT_FOUND (no such file below the folders), RESOURCE_EXHAUSTED (too large).
base::Result<std::unique_ptr<Load>> load(const Library& library, std::string_view uri, Load::Listener& listener);

}  // namespace weir::evergreen
