#include "engines/forward/origin.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "base/fnv.h"
#include "engines/forward/prefix.h"

namespace weir::forward {
namespace {

using base::Code;
using base::failure;
using base::Status;

constexpr size_t kLongestKey = 4096;

// The first line of the file.
base::Result<std::string> read_key(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!in || !std::getline(in, line))
    return failure(Code::kFailedPrecondition, "parameter 'key_file': the file cannot be read");
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  const bool clean = std::all_of(line.begin(), line.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (line.empty() || line.size() > kLongestKey || !clean)
    return failure(Code::kFailedPrecondition, "parameter 'key_file': its first line is no key");
  return line;
}

}  // namespace

uint64_t Origin::number_of(std::string_view name) {
  base::Fnv hash;
  hash.add_bytes(name);
  return hash.value();
}

double Origin::load(base::Time now) const {
  const double work = 1.0 + outstanding.load(std::memory_order_relaxed);
  const base::Duration since = now - returned.load(std::memory_order_relaxed);
  if (since >= kSlowReturn || since < base::Duration(0)) return work;
  constexpr double kLeast = 0.05;  // of its share
  return work / std::max(kLeast, double(since.count()) / double(kSlowReturn.count()));
}

base::Result<std::shared_ptr<Target>> Target::make(Options options, const std::string& folder) {
  auto out = std::make_shared<Target>();
  auto kind = make_kind(options, folder);
  if (!kind) return std::move(kind).error();
  out->kind = std::move(*kind);
  if (!options.key_file.empty()) {
    auto key = read_key(options.key_file);
    if (!key) return std::move(key).error();
    out->authorization = "Bearer " + *key;
  }
  if (options.any_tls()) {
    auto tls = net::TlsContext::for_client(options.ca_file, out->kind->http() == net::ClientConn::Http::k2
                                                                ? net::TlsContext::Offer::kHttp2
                                                                : net::TlsContext::Offer::kHttp1);
    if (!tls) return std::move(tls).error();
    out->tls = std::move(*tls);
  }
  Status last;
  for (const auto& url : options.origins) {
    const std::string host = url.host.find(':') == std::string::npos ? url.host : '[' + url.host + ']';
    auto endpoints = net::resolve(host + ':' + std::to_string(url.port));
    if (endpoints)
      out->origins.emplace_back(url, std::move(*endpoints));
    else
      last = base::try_again(Code::kUnavailable, "origin " + url.authority() + ": " + endpoints.error().text);
  }
  if (out->origins.empty()) return last;
  out->options = std::move(options);
  return out;
}

Origin* Target::choose(base::Time now, uint64_t random, uint64_t session, const Origin* tried) {
  auto full = [&](const Origin& origin) {
    return origin.outstanding.load(std::memory_order_relaxed) >= options.max_outstanding;
  };
  if (session != 0) {
    Origin& origin = origins[session % origins.size()];
    return full(origin) ? nullptr : &origin;
  }
  std::array<Origin*, kMostOrigins> able;
  size_t count = 0;
  for (bool healthy : {true, false}) {
    for (auto& origin : origins)
      if (origin.healthy.load(std::memory_order_relaxed) == healthy && &origin != tried && !full(origin))
        able[count++] = &origin;
    if (count > 0) break;
  }
  if (count == 0) return tried && !full(*tried) ? const_cast<Origin*>(tried) : nullptr;
  Origin& one = *able[random % count];
  Origin& other = *able[(random >> 32) % count];
  return one.load(now) <= other.load(now) ? &one : &other;
}

Origin* Target::choose_by_prefix(base::Time now, uint64_t random, uint64_t prefix, const Origin* tried) {
  uint64_t calls = 0, healthy = 0;
  for (const auto& origin : origins) {
    if (!origin.healthy.load(std::memory_order_relaxed) || &origin == tried) continue;
    calls += origin.outstanding.load(std::memory_order_relaxed), ++healthy;
  }
  if (healthy == 0) return choose(now, random, 0, tried);
  const uint64_t share = 1 + calls * 5 / (4 * healthy);
  Origin* best = nullptr;
  uint64_t most = 0;
  for (auto& origin : origins) {
    const uint32_t has = origin.outstanding.load(std::memory_order_relaxed);
    const bool able = origin.healthy.load(std::memory_order_relaxed) && &origin != tried;
    if (!able || has >= share || has >= options.max_outstanding) continue;
    const uint64_t weight = rendezvous(prefix, origin.number);
    if (!best || weight > most) best = &origin, most = weight;
  }
  return best ? best : choose(now, random, 0, tried);
}

}  // namespace weir::forward
