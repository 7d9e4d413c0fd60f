#include "wire/grpc_status.h"

#include <algorithm>
#include <array>

#include "base/encoding.h"
#include "wire/rpc.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr std::array<std::string_view, 17> kNumbers = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                                       "9", "10", "11", "12", "13", "14", "15", "16"};

bool plain(char c) { return c >= 0x20 && c <= 0x7E && c != '%'; }

// `type` is `name`, or that with a message format or parameters behind it.
bool names(std::string_view type, std::string_view name) {
  if (type == name) return true;  // nearly always: 420 instructions less for a call of gRPC
  if (!same_text(type.substr(0, name.size()), name)) return false;
  type.remove_prefix(name.size());
  return type.empty() || type[0] == '+' || type[0] == ';' || type[0] == ' ' || type[0] == '\t';
}

}  // namespace

bool is_grpc(std::string_view content_type) { return names(content_type, "application/grpc"); }

bool is_grpc_or_web(std::string_view content_type) {
  // All three begin so; most requests are neither.
  constexpr std::string_view kAll = "application/grpc";
  if (content_type.size() < kAll.size() || lower(content_type[kAll.size() - 1]) != kAll.back()) return false;
  return is_grpc(content_type) || names(content_type, "application/grpc-web") ||
         names(content_type, "application/grpc-web-text");
}

std::string encode_grpc_message(std::string_view text) {
  std::string out;
  out.reserve(std::min(text.size(), kMaxGrpcMessage));
  for (char c : text) {
    if (out.size() + 3 > kMaxGrpcMessage) break;
    if (plain(c))
      out += c;
    else
      out += '%', out += "0123456789ABCDEF"[uint8_t(c) >> 4], out += "0123456789ABCDEF"[uint8_t(c) & 15];
  }
  return out;
}

void add_grpc_status(Fields& fields, const base::Status& status) {
  fields.add("grpc-status", kNumbers.at(size_t(status.code)));
  if (!status.text.empty()) {
    bool clean =
        status.text.size() <= kMaxGrpcMessage - 3 && std::all_of(status.text.begin(), status.text.end(), plain);
    fields.add("grpc-message", clean ? status.text : encode_grpc_message(status.text));
  }
  if (!status.details.empty() && status.details.size() <= kMaxGrpcDetails)
    fields.add("grpc-status-details-bin", base::base64_encode(status.details, base::Padding::kNone));
  if (base::worth_trying_again(status))
    fields.add("grpc-retry-pushback-ms", std::to_string(base::retry_after(status).count() * 1000));
}

void add_metadata(Fields& fields, std::string_view name, std::string_view value) {
  if (name.empty()) return;
  if (name.ends_with("-bin")) return fields.add(name, base::base64_encode(value, base::Padding::kNone));
  bool legal = std::all_of(value.begin(), value.end(), [](char c) { return c >= 0x20 && c <= 0x7E; });
  if (legal) fields.add(name, value);
}

std::optional<std::string> metadata_bin(const Fields& fields, std::string_view name) {
  std::string_view value = fields.find(name);
  if (!value.data()) return std::nullopt;
  return base::base64_decode(value.substr(0, value.find(',')));
}

}  // namespace weir::wire
