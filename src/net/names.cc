#include "net/names.h"

#include <netdb.h>

#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace weir::net {

// Shared by the threads, which may be the last to leave.
struct SystemNames::Resolver : std::enable_shared_from_this<Resolver> {
  struct Question {
    std::string host;
    Then then;
  };

  Resolver(Shard& its_shard, Ask its_ask) : shard(its_shard), ask(std::move(its_ask)) {}

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

// With the mutex.
void SystemNames::Resolver::begin() {
  if (threads == kAtOnce) return;
  try {
    std::thread([self = shared_from_this()] { self->run(); }).detach();
    ++threads;
  } catch (const std::system_error&) {  // no more threads: those that run take it, or nobody
    if (threads > 0) return;
    for (auto& question : std::exchange(waiting, {})) answer(std::move(question.then), {});
  }
}

void SystemNames::Resolver::run() {
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

// With the mutex.
void SystemNames::Resolver::answer(Then then, std::vector<Endpoint> found) {
  shard.post([self = shared_from_this(), then = std::move(then), found = std::move(found)]() mutable {
    {
      std::lock_guard lock(self->mutex);
      if (!self->open) return;  // whoever asked has gone
    }
    then(std::move(found));
  });
}

SystemNames::SystemNames(Shard& shard, Ask ask) : resolver_(std::make_shared<Resolver>(shard, std::move(ask))) {}

SystemNames::~SystemNames() {
  std::lock_guard lock(resolver_->mutex);
  resolver_->open = false;
  resolver_->waiting.clear();
}

void SystemNames::look_up(const std::string& host, Then then) {
  std::lock_guard lock(resolver_->mutex);
  resolver_->waiting.push_back({host, std::move(then)});
  resolver_->begin();
}

std::vector<Endpoint> SystemNames::ask_system(const std::string& host) {
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
