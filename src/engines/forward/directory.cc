#include "engines/forward/directory.h"

#include <algorithm>
#include <utility>

namespace weir::forward {
namespace {

base::Result<Target::Member> member_of(const std::string& text, const net::LiveTls* tls) {
  auto url = net::parse_url(text);
  if (!url) return url.error();
  if (tls && url->scheme != net::Url::Scheme::kHttps)
    return base::invalid("it is not https, which cluster.tls asks for");
  if (url->target != "/") return base::invalid("it has a path");
  const std::string host = url->host.find(':') == std::string::npos ? url->host : '[' + url->host + ']';
  auto found = net::resolve(host + ':' + std::to_string(url->port));
  if (!found) return found.error();
  return Target::Member{std::move(*url), std::move(*found)};
}

}  // namespace

std::vector<std::string> Directory::set(const std::map<std::string, std::vector<std::string>>& nodes) {
  const auto tls = [this] {
    std::lock_guard lock(mutex_);
    return tls_;
  }();
  std::vector<std::string> wrong;
  std::map<std::string, base::Result<Target::Member>> known;  // by URL: each is looked up once
  std::map<std::string, std::vector<Target::Member>> members;
  for (const auto& [model, urls] : nodes)
    for (const auto& url : urls) {
      auto found = known.find(url);
      if (found == known.end()) {
        found = known.emplace(url, member_of(url, tls.get())).first;
        if (!found->second) wrong.push_back(url + ": " + found->second.error().text);
      }
      if (found->second) members[model].push_back(*found->second);
    }
  std::lock_guard lock(mutex_);
  members_ = std::move(members);
  std::erase_if(targets_, [](const auto& target) { return target.expired(); });
  for (const auto& weak : targets_)
    if (auto target = weak.lock(); target && !target->update(members_[target->options.model]))
      wrong.push_back("model '" + target->options.model + "': more nodes have it than its parameter 'places' (" +
                      std::to_string(target->options.places) + "): the others get no calls");
  return wrong;
}

void Directory::set_key(std::string key) {
  std::lock_guard lock(mutex_);
  key_ = std::move(key);
}

void Directory::set_tls(std::shared_ptr<const net::LiveTls> tls) {
  std::lock_guard lock(mutex_);
  tls_ = std::move(tls);
}

std::vector<net::Url> Directory::urls(const std::string& model) const {
  std::lock_guard lock(mutex_);
  std::vector<net::Url> out;
  if (auto found = members_.find(model); found != members_.end())
    for (const auto& member : found->second) out.push_back(member.url);
  return out;
}

base::Status Directory::add(const std::shared_ptr<Target>& target) {
  std::lock_guard lock(mutex_);
  if (!key_.empty()) target->set_key("authorization", key_);
  if (tls_) target->tls = tls_;
  targets_.push_back(target);
  auto found = members_.find(target->options.model);
  if (found == members_.end() || found->second.empty())
    return base::try_again(base::Code::kUnavailable, "no other node of the cluster has the model");
  target->update(found->second);
  return {};
}

}  // namespace weir::forward
