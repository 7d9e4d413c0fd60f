#include "wire/h2_client_encoder.h"

#include <cstring>
#include <new>
#include <utility>

#include "wire/h2_block_cache.h"
#include "wire/h2_head_cache.h"

namespace weir::wire {
namespace {

constexpr size_t kTableBytes = 4096;  // RFC 9113 §6.5.2

nghttp2_hd_deflater* new_deflater() {
  nghttp2_hd_deflater* deflater = nullptr;
  if (nghttp2_hd_deflate_new(&deflater, kTableBytes) != 0) throw std::bad_alloc();
  return deflater;
}

nghttp2_nv pair_of(std::string_view name, std::string_view value) {
  auto octets = [](std::string_view text) { return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data())); };
  return {octets(name), octets(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};  // nothing is written there
}

bool changes(std::string_view name) {
  switch (name.size()) {
    case 10: return name == "tracestate";
    case 11: return name == "traceparent";
    case 12: return name == "grpc-timeout";
    default: return false;
  }
}

// Names and values of the head, but for those of its form and for fields that change, in their order. `take` returns
// false to stop.
template <class Take>
bool each_text(const ClientRequest& request, Take&& take) {
  if (!take(request.method) || !take(request.scheme) || !take(request.authority) || !take(request.target)) return false;
  for (size_t i = 0; i < request.fields.size(); ++i) {
    const auto [name, value] = request.fields[i];
    if (!changes(name) && !(take(name) && take(value))) return false;
  }
  return true;
}

bool same_texts(std::string_view texts, const ClientRequest& request) {
  const bool all = each_text(request, [&](std::string_view text) {
    uint32_t size = 0;
    if (texts.size() < sizeof size) return false;
    std::memcpy(&size, texts.data(), sizeof size);
    texts.remove_prefix(sizeof size);
    if (texts.substr(0, size) != text) return false;
    texts.remove_prefix(size);
    return true;
  });
  return all && texts.empty();
}

}  // namespace

H2ClientEncoder::H2ClientEncoder() : deflater_(new_deflater()) {}

const H2ClientEncoder::Known* H2ClientEncoder::find(const ClientRequest& request) const {
  for (const Known& one : known_)
    if (one.form == request.form && same_texts(one.texts, request)) return &one;
  return nullptr;
}

std::string_view H2ClientEncoder::block(const ClientRequest& request) {
  list_.clear();
  for (size_t i = 0; i < request.fields.size(); ++i)
    if (const auto [name, value] = request.fields[i]; changes(name)) list_.push_back(pair_of(name, value));
  if (const Known* known = find(request)) {
    if (list_.empty()) return known->block;
    block_ = known->block;
    append_literals(block_, list_);
    return block_;
  }
  const std::vector<nghttp2_nv> changing = std::move(list_);
  if (!encode(request)) return {};
  keep(request);
  append_literals(block_, changing);
  return block_;
}

bool H2ClientEncoder::encode(const ClientRequest& request) {
  list_.clear();
  list_.push_back(pair_of(":method", request.method));
  list_.push_back(pair_of(":scheme", request.scheme));
  list_.push_back(pair_of(":authority", request.authority));
  list_.push_back(pair_of(":path", request.target));
  for (const auto& [name, value] : request.fields_of_form()) list_.push_back(pair_of(name, value));
  for (size_t i = 0; i < request.fields.size(); ++i)
    if (const auto [name, value] = request.fields[i]; !changes(name)) list_.push_back(pair_of(name, value));
  block_.resize(nghttp2_hd_deflate_bound(deflater_.get(), list_.data(), list_.size()));
  const ssize_t n = nghttp2_hd_deflate_hd(deflater_.get(), reinterpret_cast<uint8_t*>(block_.data()), block_.size(),
                                          list_.data(), list_.size());
  block_.resize(n < 0 ? 0 : size_t(n));
  return n > 0;
}

void H2ClientEncoder::keep(const ClientRequest& request) {
  if (!leaves_table(block_)) return known_.clear();
  Known known{request.form, {}, {}};
  each_text(request, [&](std::string_view text) {
    const auto size = uint32_t(text.size());
    known.texts.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
    return known.texts.size() <= kMostText;
  });
  if (known.texts.size() > kMostText || block_.size() > kMostBlock) return;
  known.block = block_;
  if (known_.size() < kMost)
    known_.push_back(std::move(known));
  else
    known_[replace_++ % kMost] = std::move(known);
}

bool H2ClientEncoder::resize_table(uint32_t bytes) {
  known_.clear();
  return nghttp2_hd_deflate_change_table_size(deflater_.get(), bytes) == 0;
}

}  // namespace weir::wire
