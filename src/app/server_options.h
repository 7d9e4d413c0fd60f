// The configuration as the rooms below the server take it: shards, listeners, the fetcher of references.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/config.h"
#include "base/status.h"
#include "net/server.h"

namespace weir::app {

// How many shards run: config.shards, or one per core of the machine.
uint32_t shards_of(const Config& config);

// How many of them keep to a core each, from the first: all or none. A single shard may run on any core.
uint32_t pinned_shards(const Config& config);

// Certificates are not read yet. The networks of config.proxy_protocol were checked when they were set.
net::ServerOptions server_options(const Config& config);
// The files of certificates, keys and authorities that the server and its cluster read; some may be empty.
std::vector<std::string> certificate_files(const Config& config);

}  // namespace weir::app
