#include "dialects/salience/reply.h"

#include <bit>

#include "marshal/pb_wire.h"

namespace weir::salience {
namespace {

using marshal::PbType;
using marshal::put_bytes;
using marshal::put_tag;
using marshal::put_varint;

static_assert(std::endian::native == std::endian::little, "floats go out as they lie in memory");

void put_number(std::string& out, uint32_t field, uint32_t value) {
  if (value == 0) return;
  put_tag(out, field, PbType::kVarint);
  put_varint(out, value);
}
void put_float(std::string& out, uint32_t field, float value) {
  put_tag(out, field, PbType::kFixed32);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_details(std::string& out, const msg::TokenDetails& details) {
  if (!details.readout.empty())
    put_bytes(out, 4, {reinterpret_cast<const char*>(details.readout.data()), details.readout.size() * sizeof(float)});
  std::string entry;
  for (const auto& top : details.top) {
    entry.clear();
    put_number(entry, 1, top.id);
    put_float(entry, 2, top.logprob);
    put_bytes(out, 5, entry);
  }
  if (!details.has_logprob) return;
  put_float(out, 6, details.logprob);
  put_number(out, 7, 1);
}

base::Bytes event(uint32_t field, std::string_view inner) {
  std::string out;
  out.reserve(inner.size() + 6);
  put_bytes(out, field, inner);
  return base::Bytes::adopt(std::move(out));
}

}  // namespace

base::Bytes write_token(const msg::Token& token) {
  std::string inner;
  put_number(inner, 1, token.id);
  put_number(inner, 2, token.position);
  put_number(inner, 3, token.prefill ? 1 : 0);
  if (token.details) put_details(inner, *token.details);
  return event(1, inner);
}

base::Bytes write_done(uint32_t prompt_tokens, uint32_t completion_tokens, Reason reason) {
  std::string inner;
  put_number(inner, 1, prompt_tokens);
  put_number(inner, 2, completion_tokens);
  put_number(inner, 3, prompt_tokens + completion_tokens);
  put_number(inner, 4, uint32_t(reason));
  return event(2, inner);
}

}  // namespace weir::salience
