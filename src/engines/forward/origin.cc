#include "engines/forward/origin.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/fnv.h"
#include "base/text_file.h"
#include "engines/forward/prefix.h"

namespace weir::forward {
namespace {

using base::Code;
using base::failure;
using base::Status;

constexpr size_t kLongestKey = 4096;
constexpr size_t kMostServers = 16;  // of one name

bool is_address(const std::string& host) {
  in6_addr any;
  return ::inet_pton(AF_INET, host.c_str(), &any) == 1 || ::inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

bool same(const net::Endpoint& a, const net::Endpoint& b) {
  return a.size == b.size && std::memcmp(&a.storage, &b.storage, a.size) == 0;
}

// Servers: the first of each family are one, and so on, as most machines have an address of both.
std::vector<Origin::Addresses> servers_of(const std::vector<net::Endpoint>& found) {
  std::vector<Origin::Addresses> out;
  size_t counts[2] = {0, 0};
  for (const auto& endpoint : found) {
    const size_t place = counts[endpoint.storage.ss_family == AF_INET6]++;
    if (place == out.size()) out.emplace_back();
    out[place].push_back(endpoint);
  }
  return out;
}

bool same_server(const Origin::Addresses& a, const Origin::Addresses& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto& one) {
    return std::any_of(b.begin(), b.end(), [&](const auto& other) { return same(one, other); });
  });
}

// By rendezvous hashing.
template <class Fits>
Origin* heaviest(std::deque<Origin>& origins, uint64_t session, Fits fits) {
  Origin* own = nullptr;
  uint64_t most = 0;
  for (auto& origin : origins) {
    const uint64_t weight = rendezvous(session, origin.number());
    if (fits(origin) && (!own || weight > most)) own = &origin, most = weight;
  }
  return own;
}

// The first line of the file.
base::Result<std::string> read_key(const std::string& path) {
  auto text = base::read_text_file(path);
  if (!text) return failure(Code::kFailedPrecondition, "parameter 'key_file': the file cannot be read");
  std::string line = text->substr(0, text->find('\n'));
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  const bool clean = std::all_of(line.begin(), line.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (line.empty() || line.size() > kLongestKey || !clean)
    return failure(Code::kFailedPrecondition, "parameter 'key_file': its first line is no key");
  return line;
}

}  // namespace

void Origin::name_it(net::Url url, size_t place) {
  std::string name = url.authority();
  base::Fnv hash;
  hash.add_bytes(name);
  if (url.target.size() > 1) hash.add_bytes(url.target);  // of several that one server has under its paths
  const uint64_t number = hash.value() + place;
  auto known = std::find_if(known_.begin(), known_.end(), [&](const Who& w) { return w.name == name; });
  if (known == known_.end()) known = known_.insert(known_.end(), {std::move(url), std::move(name), number});
  who_.store(&*known, std::memory_order_release);
}

Origin::Addresses Origin::addresses() const {
  std::lock_guard lock(mutex_);
  return addresses_;
}

void Origin::move_to(Addresses addresses) {
  {
    std::lock_guard lock(mutex_);
    addresses_ = std::move(addresses);
  }
  generation.fetch_add(1, std::memory_order_release);
  broken.store(0, std::memory_order_relaxed);
  healthy.store(!on_probation, std::memory_order_relaxed);
  present.store(true, std::memory_order_release);
}

double Origin::load(base::Time now) const {
  double work = 1.0 + outstanding.load(std::memory_order_relaxed);
  const base::Duration age = now - reported_.load(std::memory_order_relaxed);
  if (age >= base::Duration(0) && age < kReportLife) {
    constexpr double kFullest = 0.95;
    work += waiting_.load(std::memory_order_relaxed);
    work /= 1 - std::min(utilization_.load(std::memory_order_relaxed), kFullest);
  }
  const base::Duration since = now - returned.load(std::memory_order_relaxed);
  if (since >= kSlowReturn || since < base::Duration(0)) return work;
  constexpr double kLeast = 0.05;  // of its share
  return work / std::max(kLeast, double(since.count()) / double(kSlowReturn.count()));
}

void Origin::report(const LoadReport& report, base::Time now) {
  if (report.empty()) return;
  utilization_.store(report.utilization.value_or(0), std::memory_order_relaxed);
  waiting_.store(report.waiting.value_or(0), std::memory_order_relaxed);
  reported_.store(now, std::memory_order_relaxed);
}

void Target::set_key(const std::string& field, const std::string& secret) {
  key_field = field;
  key = (field == "authorization" ? "Bearer " : "") + secret;
}

base::Result<std::shared_ptr<Target>> Target::make(Options options, const std::string& folder) {
  auto out = std::make_shared<Target>();
  auto kind = make_kind(options, folder);
  if (!kind) return std::move(kind).error();
  out->kind = std::move(*kind);
  if (!options.key_file.empty()) {
    auto key = read_key(options.key_file);
    if (!key) return std::move(key).error();
    out->set_key(options.key_header, *key);
  }
  if (options.any_tls()) {
    auto tls = net::TlsContext::for_client(options.ca_file, out->kind->http() == net::ClientConn::Http::k2
                                                                ? net::TlsContext::Offer::kHttp2
                                                                : net::TlsContext::Offer::kHttp1);
    if (!tls) return std::move(tls).error();
    out->tls = std::make_shared<const net::LiveTls>(std::move(*tls));
  }
  if (options.members) {
    for (uint32_t i = 0; i < options.places; ++i) out->origins.emplace_back().on_probation = options.beside_local;
    out->options = std::move(options);
    return out;
  }
  Status last;
  const size_t most = std::clamp<size_t>(kMostOrigins / options.origins.size(), 1, kMostServers);
  for (const auto& url : options.origins) {
    auto& name = out->names.emplace_back(Name{url, {}, is_address(url.host), false});
    const std::string host = url.host.find(':') == std::string::npos ? url.host : '[' + url.host + ']';
    auto found = net::resolve(host + ':' + std::to_string(url.port));
    if (!found) last = base::try_again(Code::kUnavailable, "origin " + url.authority() + ": " + found.error().text);
    for (size_t i = 0; i < (name.fixed ? 1 : most); ++i) {
      name.places.push_back(&out->origins.emplace_back(url, i, Origin::Addresses()));
      name.places.back()->on_probation = options.beside_local;
    }
    if (found) out->update(name, *found);
  }
  if (out->present() == 0 && !options.beside_local) return last;
  out->options = std::move(options);
  return out;
}

bool Target::update(Name& name, const std::vector<net::Endpoint>& found) {
  auto servers = servers_of(found);
  std::vector<Origin*> free;
  for (Origin* origin : name.places) {
    const auto had = origin->addresses();
    auto stays = std::find_if(servers.begin(), servers.end(), [&](const auto& s) { return same_server(s, had); });
    if (!origin->present || stays == servers.end())
      free.push_back(origin);
    else
      servers.erase(stays);
  }
  bool changed = false;
  size_t next = 0;  // of the servers without a place
  for (Origin* origin : free) {
    if (next < servers.size())
      origin->move_to(std::move(servers[next++])), changed = true;
    else
      changed = origin->present.exchange(false) || changed;
  }
  return changed;
}

bool Target::update(const std::vector<Member>& members) {
  bool room = true;
  const auto absent = [&](const std::string& name) {
    return std::none_of(members.begin(), members.end(), [&](const auto& m) { return m.url.authority() == name; });
  };
  for (auto& origin : origins)
    if (absent(origin.name())) origin.present.store(false, std::memory_order_release);
  std::erase_if(displaced_, [&](const auto& name) { return absent(name); });
  for (const auto& member : members) {
    Origin* place = place_of(member.url.authority());
    if (!place) {
      room = false;
      if (displaced_.count(member.url.authority()) == 0) place = place_of_broken();
    }
    if (!place) continue;
    if (place->name() != member.url.authority()) place->name_it(member.url);
    if (!place->present || !same_server(place->addresses(), member.addresses)) place->move_to(member.addresses);
  }
  return room;
}

// The place that the server has, or had, else one that nobody has had, else one of a server that has gone.
Origin* Target::place_of(const std::string& name) {
  const auto first = [this](auto&& fits) -> Origin* {
    auto found = std::find_if(origins.begin(), origins.end(), fits);
    return found == origins.end() ? nullptr : &*found;
  };
  if (Origin* own = first([&](const Origin& o) { return o.name() == name; })) return own;
  if (Origin* fresh = first([](const Origin& o) { return o.url().host.empty(); })) return fresh;
  return first([](const Origin& o) {
    return !o.present.load(std::memory_order_acquire) && o.outstanding.load(std::memory_order_acquire) == 0;
  });
}

// Nodes that were killed while NATS was away stay on the list for some seconds, and may be more than there are places.
Origin* Target::place_of_broken() {
  auto found = std::find_if(origins.begin(), origins.end(), [](const Origin& o) {
    return !o.on_probation && !o.healthy.load(std::memory_order_relaxed) &&
           o.outstanding.load(std::memory_order_acquire) == 0;
  });
  if (found == origins.end()) return nullptr;
  found->present.store(false, std::memory_order_release);
  displaced_.insert(found->name());
  return &*found;
}

size_t Target::present() const {
  return size_t(
      std::count_if(origins.begin(), origins.end(), [](const Origin& origin) { return origin.present.load(); }));
}

Origin* Target::choose(base::Time now, uint64_t random, uint64_t session, const Origin* tried) {
  auto full = [this](const Origin& origin) { return !has_room(origin); };
  if (session != 0) {
    Origin* own = heaviest(origins, session, [](const Origin& o) { return o.present.load(std::memory_order_acquire); });
    return own && !full(*own) ? own : nullptr;
  }
  std::array<Origin*, kMostOrigins> able;
  size_t count = 0;
  for (bool healthy : {true, false}) {
    for (auto& origin : origins)
      if (origin.present.load(std::memory_order_acquire) && origin.healthy.load(std::memory_order_relaxed) == healthy &&
          &origin != tried && !full(origin))
        able[count++] = &origin;
    if (count > 0 || options.beside_local) break;
  }
  if (count == 0) return tried && !options.beside_local && !full(*tried) ? const_cast<Origin*>(tried) : nullptr;
  Origin& one = *able[random % count];
  Origin& other = *able[(random >> 32) % count];
  return one.load(now) <= other.load(now) ? &one : &other;
}

Origin* Target::choose_for_start(uint64_t session) {
  Origin* own = heaviest(origins, session, [this](const Origin& o) { return o.able() && has_room(o); });
  return own ? own : choose({}, 0, session, nullptr);
}

Origin* Target::choose_by_prefix(base::Time now, uint64_t random, uint64_t prefix, const Origin* tried) {
  uint64_t calls = 0, healthy = 0;
  for (const auto& origin : origins) {
    if (!origin.able() || &origin == tried) continue;
    calls += origin.outstanding.load(std::memory_order_relaxed), ++healthy;
  }
  if (healthy == 0) return choose(now, random, 0, tried);
  const uint64_t share = 1 + calls * 5 / (4 * healthy);
  Origin* best = nullptr;
  uint64_t most = 0;
  for (auto& origin : origins) {
    const uint32_t has = origin.outstanding.load(std::memory_order_relaxed);
    const bool able = origin.able() && &origin != tried;
    if (!able || has >= share || has >= options.max_outstanding) continue;
    const uint64_t weight = rendezvous(prefix, origin.number());
    if (!best || weight > most) best = &origin, most = weight;
  }
  return best ? best : choose(now, random, 0, tried);
}

}  // namespace weir::forward
