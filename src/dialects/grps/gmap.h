// How the entries of gmap meet inputs and outputs. The six maps are namespaces of their own, a model's inputs are one:
// an entry is the input of its key; where several maps have the key, each is the input "<map>.<key>" ("s_i32.k"), but
// for the one whose type is that of the model's own input of that name.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "dialects/grps/message.h"
#include "msg/spec.h"

namespace weir::grps {

// Which entry each input was, so that an output of that name is answered under the same key in the same map.
struct AskedMaps {
  struct AskedMap {
    std::string input, key;
    Map map;
  };
  std::vector<AskedMap> entries;

  const AskedMap* find(std::string_view input) const;
  // Where bytes go that nobody has asked for: into s_s where they are UTF-8, unless all bytes of the request came in
  // s_b.
  bool prefers_bytes() const;
};

// Names the message's tensors after the inputs that they are. At most kMaxTensors of them.
AskedMaps name_inputs(Message& message, const msg::ModelSpec& spec);

// Fills message.maps and names the tensors after their keys, cast to what the map holds: the map in which the output
// was asked for, where that is for values of its kind (text, whole numbers, others) and holds it; else the nearest.
// Every tensor has one element. Errors: OUT_OF_RANGE.
base::Status sort_into_maps(const AskedMaps& asked, base::SlabSource& slabs, Message& message);

}  // namespace weir::grps
