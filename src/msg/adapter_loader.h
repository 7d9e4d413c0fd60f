// AdapterLoader: the way to LoRA adapters that come to a model, and leave it, while the model serves.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace weir::msg {

// Call::adapter of those that a load() brings; below are those that come with their model (ModelSpec::adapters).
inline constexpr uint32_t kFirstLoadedAdapter = 1u << 16;

class AdapterLoader {
 public:
  struct Source {
    std::string name;     // for the log, and errors
    std::string folder;   // of this machine; nothing outside of it is read
    std::string path;     // of the adapter, relative to it, through no link
    uint32_t number = 0;  // Call::adapter; never given to another adapter of this model
  };
  struct Loaded {
    uint64_t bytes = 0;                // of memory
    std::shared_ptr<const void> keep;  // the adapter leaves memory when this ends: no Call may be for it then
  };

  // Calls may be for that number as soon as this has returned. Errors name `path`, and no folder of this machine:
  // NOT_FOUND, INVALID_ARGUMENT, UNIMPLEMENTED, RESOURCE_EXHAUSTED. One thread at a time, never a shard.
  virtual base::Result<Loaded> load(const Source& source) = 0;
  // Whether load() has brought that one. Any thread, as the next.
  virtual bool has(uint32_t number) const = 0;
  virtual uint64_t bytes() const = 0;  // of memory, of all of them

  virtual ~AdapterLoader() = default;
};

}  // namespace weir::msg
