#include "net/resolver.h"

#include <netdb.h>

#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace weir::net {

// The queue of lookups. It is shared with the threads, which may outlive the SystemResolver.
struct SystemResolver::Lookups : std::enable_shared_from_this<Lookups> {
  struct Question {
    std::string host;
    Then then;
  };

  Lookups(Shard& its_shard, Ask its_ask) : shard(its_shard), ask(std::move(its_ask)) {}

  void begin();
  void run();
  void answer(Then then, std::vector<Endpoint> found);

  Shard& shard;  // while open
  const Ask ask;
  std::mutex mutex;  // of all that follows
  bool open = true;
  std::deque<Question> waiting;
  unsigned threads = 0;
};

// The caller holds the mutex.
void SystemResolver::Lookups::begin() {
  if (threads == kAtOnce) return;
  try {
    std::thread([self = shared_from_this()] { self->run(); }).detach();
    ++threads;
  } catch (const std::system_error&) {  // no more threads: those that run take it, or nobody
    if (threads > 0) return;
    for (auto& question : std::exchange(waiting, {})) answer(std::move(question.then), {});
  }
}

void SystemResolver::Lookups::run() {
  std::unique_lock lock(mutex);
  while (open && !waiting.empty()) {
    Question question = std::move(waiting.front());
    waiting.pop_front();
    lock.unlock();
    auto found = ask(question.host);
    lock.lock();
    if (open) answer(std::move(question.then), std::move(found));
  }
  --threads;
}

// The caller holds the mutex.
void SystemResolver::Lookups::answer(Then then, std::vector<Endpoint> found) {
  shard.post([self = shared_from_this(), then = std::move(then), found = std::move(found)]() mutable {
    {
      std::lock_guard lock(self->mutex);
      if (!self->open) return;  // whoever asked has gone
    }
    then(std::move(found));
  });
}

SystemResolver::SystemResolver(Shard& shard, Ask ask) : lookups_(std::make_shared<Lookups>(shard, std::move(ask))) {}

SystemResolver::~SystemResolver() {
  std::lock_guard lock(lookups_->mutex);
  lookups_->open = false;
  lookups_->waiting.clear();
}

void SystemResolver::look_up(const std::string& host, Then then) {
  std::lock_guard lock(lookups_->mutex);
  lookups_->waiting.push_back({host, std::move(then)});
  lookups_->begin();
}

std::vector<Endpoint> SystemResolver::ask_system(const std::string& host) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  std::vector<Endpoint> out;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return out;
  for (const addrinfo* at = list; at; at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    Endpoint endpoint;
    endpoint.size = at->ai_addrlen;
    std::memcpy(&endpoint.storage, at->ai_addr, at->ai_addrlen);
    out.push_back(endpoint);
  }
  ::freeaddrinfo(list);
  return out;
}

}  // namespace weir::net
