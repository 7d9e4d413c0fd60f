// MessageOutput: a protobuf message in its binary form, as it is put together from fields of any type.
// https://protobuf.dev/programming-guides/encoding
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <google/protobuf/descriptor.h>

#include "marshal/pb_wire.h"

namespace weir::marshal {

PbType wire_type(google::protobuf::FieldDescriptor::Type type);

struct MessageOutput {
  std::string text;

  // A field with a length: its tag. Returns where what it holds begins.
  size_t open(int number);
  // Puts the length in front of what has come since.
  void close(size_t at);
  // An integer of that type without its tag: the value as either type, null where it does not fit. False where it is
  // not of the type; then nothing is put.
  bool put_integer(google::protobuf::FieldDescriptor::Type type, const int64_t* i, const uint64_t* u);

 private:
  bool put(uint64_t varint) {
    put_varint(text, varint);
    return true;
  }
  template <class T>
  bool put_fixed(T value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
    return true;
  }
};

}  // namespace weir::marshal
