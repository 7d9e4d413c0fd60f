#include "net/dormant_ssl.h"

#include <openssl/crypto.h>
#include <openssl/ssl.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace weir::net {
namespace {

constexpr size_t kPagesOfSsl = 2 * base::PagePool::kPage;
constexpr size_t kMostSsl = 1 << 18;  // of the process; further ones are in the heap: 2 GiB of addresses

base::PagePool& ssl_pages() {
  static auto& pages = *new base::PagePool(kPagesOfSsl, kMostSsl);  // outlives every thread
  return pages;
}

// At the begin of SSL_new(): the pages that are meant for the SSL, which is what it asks for first.
thread_local base::DormantPages* pages_of_next = nullptr;

// They promise what OpenSSL's own do: no memory for nothing, realloc() of null is malloc().
void* take(size_t bytes, const char*, int) {
  if (bytes == 0) return nullptr;
  if (base::DormantPages* next = std::exchange(pages_of_next, nullptr); next && bytes <= kPagesOfSsl)
    if (void* pages = next->take()) return pages;
  return std::malloc(bytes);
}

// The pages go with their owner.
void give(void* at, const char*, int) {
  if (!ssl_pages().contains(at)) std::free(at);
}

void* take_more(void* before, size_t bytes, const char* file, int line) {
  if (!before) return take(bytes, file, line);
  if (bytes == 0) {
    give(before, file, line);
    return nullptr;
  }
  if (!ssl_pages().contains(before)) return std::realloc(before, bytes);
  if (bytes <= kPagesOfSsl) return before;
  void* at = std::malloc(bytes);
  if (!at) return nullptr;
  std::memcpy(at, before, kPagesOfSsl);
  ::explicit_bzero(before, kPagesOfSsl);
  return at;
}

}  // namespace

bool use_memory_for_ssl() { return CRYPTO_set_mem_functions(take, take_more, give) == 1; }

DormantSsl::DormantSsl() : pages_(ssl_pages(), kPagesOfSsl) {}

DormantSsl::~DormantSsl() { SSL_free(get()); }

void DormantSsl::make(SSL_CTX* context) {
  pages_of_next = &pages_;
  ssl_ = SSL_new(context);
  pages_of_next = nullptr;
  if (!ssl_) throw std::bad_alloc();
}

}  // namespace weir::net
