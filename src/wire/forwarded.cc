#include "wire/forwarded.h"

#include <string>

#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr size_t kMostNodes = 32;  // proxies in a row that are looked at
constexpr size_t kForLength = 4;   // "for="

// The value of `for` in one element; quotes are taken off. Addresses have no escapes.
std::string_view for_of(std::string_view element) {
  while (!element.empty()) {
    size_t end = element.find(';');
    std::string_view pair = trim(element.substr(0, end));
    element = end == element.npos ? std::string_view() : element.substr(end + 1);
    if (pair.size() < kForLength || !same_text(pair.substr(0, kForLength), "for=")) continue;
    pair = trim(pair.substr(kForLength));
    bool quoted = pair.size() >= 2 && pair.front() == '"' && pair.back() == '"';
    return quoted ? pair.substr(1, pair.size() - 2) : pair;
  }
  return {};
}

// "[2001:db8::1]" for an address of IPv6 that came bare, as connections name them.
std::string peer_text(std::string_view node) {
  bool bare = !node.starts_with('[') && node.find(':') != node.rfind(':');
  return bare ? '[' + std::string(node) + ']' : std::string(node);
}

}  // namespace

base::ClientRef TrustedProxies::client(std::string_view peer) const {
  bool free = peer == "unix" || trusts(peer);
  return clients_.enter(base::client_name(peer), free ? base::Client::Limited::kNo : base::Client::Limited::kYes);
}

// One address in the list. kStop: what stands before it is not believed.
TrustedProxies::Next TrustedProxies::read_node(std::string_view node, std::string_view& client) const {
  auto ip = base::ip_of(node);
  if (!ip) return Next::kStop;
  client = node;
  return trusted_.has(*ip) ? Next::kOn : Next::kStop;
}

TrustedProxies::Next TrustedProxies::read_list(std::string_view value, std::string_view& client) const {
  for (size_t seen = 0; seen < kMostNodes; ++seen) {
    size_t comma = value.rfind(',');
    std::string_view element = trim(comma == value.npos ? value : value.substr(comma + 1));
    std::string_view node = field_ == Field::kForwarded ? for_of(element) : element;
    if (read_node(node, client) == Next::kStop) return Next::kStop;
    if (comma == value.npos) return Next::kOn;
    value = value.substr(0, comma);
  }
  return Next::kStop;
}

std::unique_ptr<PeerInfo> TrustedProxies::named(const Fields& fields, const PeerInfo& peer) const {
  std::string_view name = field_ == Field::kForwarded ? "forwarded" : "x-forwarded-for";
  std::string_view node;
  for (size_t i = fields.size(); i-- > 0;)
    if (fields[i].name == name && read_list(fields[i].value, node) == Next::kStop) break;
  if (node.empty()) return nullptr;
  auto out = std::make_unique<PeerInfo>(peer);  // its listener and network are the connection's
  out->address = peer_text(node);
  out->client = client(out->address);
  out->proxy = false;
  out->certificate_names.reset();  // the proxy's, which its clients have not shown
  return out;
}

void Exchange::name_client(const TrustedProxies* proxies) {
  if (!proxies || !request_.peer || !request_.peer->proxy) return;
  forwarded_ = proxies->named(request_.fields, *request_.peer);
  if (forwarded_) request_.peer = forwarded_.get();
}

}  // namespace weir::wire
