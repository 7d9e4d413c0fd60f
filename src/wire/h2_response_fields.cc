#include "wire/h2_response_fields.h"

#include "wire/date.h"

namespace weir::wire {
namespace {

// RFC 9113 §8.2.2: about the connection, so of no use in a stream.
bool connection_specific(std::string_view name) {
  switch (name.empty() ? 0 : name[0]) {
    case 'c': return name == "connection";
    case 'k': return name == "keep-alive";
    case 'p': return name == "proxy-connection";
    case 't': return name == "transfer-encoding";
    case 'u': return name == "upgrade";
  }
  return false;
}

}  // namespace

// Neither is copied: both live in the Exchange until they are encoded.
void H2ResponseFields::add(std::string_view name, std::string_view value) {
  auto bytes = [](std::string_view text) { return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data())); };
  list_.push_back({bytes(name), bytes(value), name.size(), value.size(),
                   NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE});
}

void H2ResponseFields::add(const Fields& fields) {
  for (size_t i = 0; i < fields.size(); ++i)
    if (auto [name, value] = fields[i]; !connection_specific(name)) add(name, value);
}

std::span<const nghttp2_nv> H2ResponseFields::head(const H2Exchange& x) {
  list_.clear();
  add(":status", {x.out.status.data(), x.out.status.size()});
  // gRPC's clients do without: its bytes are saved.
  if (connection_.env.date && !x.in.grpc) add("date", connection_.env.date->value());
  if (x.out.grpc_head) add("content-type", "application/grpc");
  add(x.out.response.fields);
  add(x.extra_fields());
  return list_;
}

std::span<const nghttp2_nv> H2ResponseFields::trailers(const H2Exchange& x) {
  list_.clear();
  if (x.out.grpc_end) add("grpc-status", "0");
  add(x.out.trailers);
  return list_;
}

H2ResponseFields::ToSend H2ResponseFields::known_or(std::span<const nghttp2_nv> fields) const {
  const auto known = connection_.blocks.find(fields);
  return known == H2BlockCache::Ref::kNone ? ToSend{known, fields} : ToSend{known, {}};
}

// A head that is always the same is looked for once.
H2ResponseFields::ToSend H2ResponseFields::head_to_send(const H2Exchange& x) {
  const bool plain = x.out.grpc_head && x.in.grpc && x.extra_fields().size() == 0;
  if (plain && !connection_.blocks.block(grpc_head_).empty()) return {grpc_head_, {}};
  const ToSend out = known_or(head(x));
  if (plain) grpc_head_ = out.known;
  return out;
}

H2ResponseFields::ToSend H2ResponseFields::trailers_to_send(const H2Exchange& x) {
  if (x.out.grpc_end && !connection_.blocks.block(grpc_end_).empty()) return {grpc_end_, {}};
  const ToSend out = known_or(trailers(x));
  if (x.out.grpc_end) grpc_end_ = out.known;
  return out;
}

}  // namespace weir::wire
