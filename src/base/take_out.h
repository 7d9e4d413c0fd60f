// take_out(): removal in constant time from a vector that is in no order, and whose objects know where they are in it.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace weir::base {

// Takes `object` out of `all`, where its member `place` says that it is; the last one moves there.
template <class Pointer, class Object, class Place>
Pointer take_out(std::vector<Pointer>& all, const Object& object, Place Object::*place) {
  const size_t at = object.*place;
  Pointer taken = std::move(all[at]);
  if (at + 1 != all.size()) {
    all[at] = std::move(all.back());
    (*all[at]).*place = Place(at);
  }
  all.pop_back();
  return taken;
}

}  // namespace weir::base
