// Maps the entries of gmap to inputs, and outputs to entries. Each of the six maps is a namespace of its own, while a
// model's inputs are one. An entry is the input of its key. If several maps have the key, each of them is the input
// "<map>.<key>" ("s_i32.k"), except for the one whose type is that of the model's input of that name.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "dialects/grps/message.h"
#include "msg/spec.h"

namespace weir::grps {

// The entry of each input of a request, so that an output of that name is answered under the same key in the same map.
struct RequestMaps {
  struct MapEntry {
    std::string input, key;
    Map map;
  };
  std::vector<MapEntry> entries;

  const MapEntry* find(std::string_view input) const;
  // Whether BYTES outputs without an entry in the request go into s_b, even if they are UTF-8: if all BYTES of the
  // request came in s_b.
  bool prefers_bytes() const;
};

// Gives the message's tensors the names of the inputs that they are for. There are at most kMaxTensors of them.
RequestMaps name_inputs(Message& message, const msg::ModelSpec& spec);

// Fills message.maps: chooses a map for each output, casts the output to the type of the map, and names it by its key.
// The map is the one that had the entry in the request, if that is for values of its kind (text, whole numbers, others)
// and can hold it, else the nearest. Every tensor has one element. Errors: OUT_OF_RANGE.
base::Status sort_into_maps(const RequestMaps& request, base::SlabSource& slabs, Message& message);

}  // namespace weir::grps
