#include "marshal/pb_infer_fields.h"

#include <type_traits>
#include <variant>

namespace weir::marshal {

void put_parameter(std::string& out, std::string_view name, const msg::ParamValue& value) {
  std::string v;
  std::visit(
      [&v](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::string>) {
          put_bytes(v, 3, x);
        } else if constexpr (std::is_same_v<T, double>) {
          put_tag(v, 4, PbType::kFixed64);
          v.append(reinterpret_cast<const char*>(&x), 8);
        } else {
          put_tag(v, std::is_same_v<T, bool> ? 1 : std::is_same_v<T, int64_t> ? 2 : 5, PbType::kVarint);
          put_varint(v, uint64_t(x));
        }
      },
      value);
  std::string entry;
  put_bytes(entry, 1, name);
  put_bytes(entry, 2, v);
  put_bytes(out, 4, entry);
}

void write_tensor_head(PbWriter& out, const msg::Tensor& tensor) {
  const std::string_view dtype = msg::name(tensor.dtype);
  size_t dims = 0;
  for (int64_t d : tensor.shape.dims()) dims += varint_size(uint64_t(d));
  size_t size = tensor.name.empty() ? 0 : 1 + varint_size(tensor.name.size()) + tensor.name.size();
  size += dtype.empty() ? 0 : 2 + dtype.size();
  if (dims) size += 1 + varint_size(dims) + dims;
  out.tag(5, PbType::kBytes);
  out.varint(size);
  out.text(1, tensor.name);
  out.text(2, dtype);
  if (!dims) return;
  out.tag(3, PbType::kBytes);
  out.varint(dims);
  for (int64_t d : tensor.shape.dims()) out.varint(uint64_t(d));
}

}  // namespace weir::marshal
