#include "dialects/grps/gmap.h"

#include <algorithm>

#include "marshal/cast.h"
#include "marshal/json_tensor.h"

namespace weir::grps {
namespace {

using base::Status;
using msg::DType;
using msg::Tensor;

// The map for values of this type; s_s for bytes.
Map nearest(DType dtype) {
  switch (dtype) {
    case DType::kBytes: return Map::kText;
    case DType::kInt64:
    case DType::kUint32:
    case DType::kUint64: return Map::kInt64;
    case DType::kFp16:
    case DType::kBf16:
    case DType::kFp32: return Map::kFp32;
    case DType::kFp64: return Map::kFp64;
    default: return Map::kInt32;
  }
}

enum class Kin : uint8_t { kBytes, kWhole, kFloat };
Kin kin(Map map) {
  if (map <= Map::kBytes) return Kin::kBytes;
  return map <= Map::kInt64 ? Kin::kWhole : Kin::kFloat;
}

bool is_of(Map map, DType dtype) {
  Map best = nearest(dtype);
  return map == best || (kin(map) == Kin::kBytes && kin(best) == Kin::kBytes);
}

bool is_text(const Tensor& t) { return marshal::bytes_text(t) == marshal::BytesText::kUtf8; }

Status into(Map map, Tensor& t, base::SlabSource& slabs) { return marshal::cast(t, type_of(map).dtype, slabs); }

}  // namespace

const RequestMaps::MapEntry* RequestMaps::find(std::string_view input) const {
  auto at = std::find_if(entries.begin(), entries.end(), [&](const MapEntry& e) { return e.input == input; });
  return at == entries.end() ? nullptr : &*at;
}

bool RequestMaps::prefers_bytes() const {
  auto in = [&](Map map) {
    return std::any_of(entries.begin(), entries.end(), [&](const MapEntry& e) { return e.map == map; });
  };
  return in(Map::kBytes) && !in(Map::kText);
}

RequestMaps name_inputs(Message& message, const msg::ModelSpec& spec) {
  RequestMaps asked;
  const auto& maps = message.maps;
  for (size_t i = 0; i < message.tensors.size(); ++i) {
    const std::string& key = message.tensors[i].name;
    const msg::TensorSpec* own = spec.input(key);
    bool shared = false, taken = false;
    for (size_t j = 0; j < message.tensors.size(); ++j) {
      if (j == i || message.tensors[j].name != key) continue;
      shared = shared || maps[j] != maps[i];
      taken = taken || (own && j < i && is_of(maps[j], own->dtype));
    }
    bool its = !shared || (own && !taken && is_of(maps[i], own->dtype));
    asked.entries.push_back({its ? key : std::string(type_of(maps[i]).name) + "." + key, key, maps[i]});
  }
  for (size_t i = 0; i < message.tensors.size(); ++i) message.tensors[i].name = asked.entries[i].input;
  return asked;
}

Status sort_into_maps(const RequestMaps& asked, base::SlabSource& slabs, Message& message) {
  message.maps.clear();
  for (Tensor& t : message.tensors) {
    const RequestMaps::MapEntry* entry = asked.find(t.name);
    Map best = nearest(t.dtype);
    if (kin(best) == Kin::kBytes) {
      bool bytes =
          !is_text(t) || (entry && kin(entry->map) == Kin::kBytes ? entry->map == Map::kBytes : asked.prefers_bytes());
      message.maps.push_back(bytes ? Map::kBytes : Map::kText);
    } else if (entry && kin(entry->map) == kin(best) && into(entry->map, t, slabs).ok()) {
      message.maps.push_back(entry->map);
    } else if (into(best, t, slabs).ok()) {
      message.maps.push_back(best);
    } else {
      return base::failure(base::Code::kOutOfRange, "output '" + t.name + "' (" + std::string(msg::name(t.dtype)) +
                                                        ") has a value that no map of GRPS holds");
    }
    if (entry) t.name = entry->key;
  }
  return {};
}

}  // namespace weir::grps
